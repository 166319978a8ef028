"""What a coroutine awaits, and which tasks await a future.

For listings of tasks, as that of `py_event_loop:tasks/1`. asyncio's own call graph came with Python
3.14; before that, the callbacks of a future show who awaits it.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, FunctionType, GeneratorType
from typing import Any

#: The frames of one task that a listing has at most: the outermost and the innermost ones.
MAX_FRAMES = 200

#: Where each kind of coroutine has its frame, and what it awaits.
_KINDS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))

_COROUTINES = (CoroutineType, GeneratorType, AsyncGeneratorType)

#: Objects between two coroutines that have no attribute for the inner one, only a reference.
_WRAPPERS = {
    "anext_awaitable",
    "async_generator_asend",
    "async_generator_athrow",
    "coroutine_wrapper",
}

#: Variables of asyncio's callbacks with the future that they complete: `gather` and `shield`,
#: `wait` and `wait_for`, and the queue of `as_completed`.
_COMPLETED = ("outer", "waiter", "done")


def frames(coroutine: object) -> list[FrameType]:
    """The frames of a coroutine that waits and of all it awaits, outermost first."""
    found: list[FrameType] = []
    seen: set[int] = set()
    awaitable: object | None = coroutine
    while awaitable is not None and id(awaitable) not in seen:
        seen.add(id(awaitable))
        frame, awaitable = _step(awaitable)
        if frame is not None:
            found.append(frame)
    if len(found) > MAX_FRAMES:
        del found[MAX_FRAMES // 2 : -MAX_FRAMES // 2]
    return found


def _step(awaitable: object) -> tuple[FrameType | None, object | None]:
    if type(awaitable).__name__ in _WRAPPERS:
        return None, next(filter(_has_frames, gc.get_referents(awaitable)), None)
    for frame, awaits in _KINDS:
        if hasattr(awaitable, frame):
            return getattr(awaitable, frame), getattr(awaitable, awaits, None)
    return None, None


def _has_frames(value: object) -> bool:
    return isinstance(value, _COROUTINES) or type(value).__name__ in _WRAPPERS


def awaiters(future: asyncio.Future[Any]) -> list[asyncio.Task[Any]]:
    """The tasks that await `future`, also through `gather`, `shield`, `wait` or a `TaskGroup`."""
    found: dict[int, asyncio.Task[Any]] = {}
    seen = {id(future)}
    futures = [future]
    while futures:
        for waiting in _waiting(futures.pop()):
            if isinstance(waiting, asyncio.Task):
                found[id(waiting)] = waiting
            elif id(waiting) not in seen:
                seen.add(id(waiting))
                futures.append(waiting)
    return list(found.values())


def _waiting(future: asyncio.Future[Any]) -> Iterator[asyncio.Future[Any]]:
    yield from getattr(future, "_asyncio_awaited_by", None) or ()
    for callback, _ in list(getattr(future, "_callbacks", None) or ()):
        yield from _completed_by(callback)


def _completed_by(callback: Any) -> Iterator[asyncio.Future[Any]]:
    """The futures that this callback completes or wakes."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        # Its own callback: it awaits the future.
        yield owner
    elif isinstance(owner, asyncio.TaskGroup):
        yield from _futures([getattr(owner, "_parent_task", None)])
    elif isinstance(callback, functools.partial):
        yield from _futures(callback.args)
    elif isinstance(callback, FunctionType) and callback.__module__.startswith("asyncio."):
        cells = zip(callback.__code__.co_freevars, callback.__closure__ or (), strict=True)
        yield from _futures(_content(cell) for name, cell in cells if name in _COMPLETED)
    elif type(callback).__name__ == "method" and type(owner).__module__ == "asyncio.tasks":
        # `as_completed` from Python 3.13 on.
        yield from _futures([getattr(owner, "_done", None)])


def _futures(values: Any) -> Iterator[asyncio.Future[Any]]:
    for value in values:
        if isinstance(value, asyncio.Queue):
            yield from value._getters  # type: ignore[attr-defined]
        elif isinstance(value, asyncio.Future):
            yield value


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # A variable without a value yet.
        return None
