"""The tasks of a loop: where each one waits, who awaits it, which Erlang process it works for.

`tasks()` is for Python; `_list_tasks` is called by `native/py_nif/src/loops/task_list.rs`, for
`py_inspect`, and `cancel` by `py_dashboard_view`. As a program (`-m erlang_loop.inspect`) it shows
what another node does, see `attach.py`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from types import FrameType
from typing import Any

from erlang import Pid

from . import _native, awaits
from .loop import ErlangEventLoop
from .loop.event_loop import all_loops
from .placeholders import named
from .tasks import coroutine_name, frames_of_thread, text

__all__ = ["Frame", "Task", "tasks"]

#: How many tasks one list has at most.
MAX_TASKS = 10_000
#: How many of them are described in one turn: other callbacks run in between.
_SLICE = 100


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a coroutine waits."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Task:
    """An asyncio task at one moment."""

    id: int
    name: str
    #: `running`, `waiting` for a future, or `ready`: it runs in the next turn.
    state: str
    #: How often `cancel()` was called without `uncancel()`.
    cancelling: int
    #: The name of its coroutine.
    coroutine: str
    #: Its coroutine and all that this one awaits, outermost first.
    stack: tuple[Frame, ...]
    #: The tasks that await it, by their `id`.
    awaited_by: tuple[int, ...]
    #: The Erlang process that it works for, and the number of the request it was started for.
    caller: Pid | None
    request: int | None
    #: For how many seconds it has existed. Of a task that no request started that is unknown: then
    #: it is the time since it was listed first.
    age: float
    age_is_exact: bool
    #: For how many seconds lists have shown it where it is now.
    waits: float
    #: The HTTP request or WebSocket that it serves, with its client: `GET /path 127.0.0.1:50000`.
    serves: str | None = None


def tasks(loop: ErlangEventLoop | None = None) -> list[Task]:
    """The tasks of the running loop, or of `loop`."""
    if loop is None:
        running = asyncio.get_running_loop()
        if not isinstance(running, ErlangEventLoop):
            raise TypeError(f"tasks of an ErlangEventLoop are listed, not of {running!r}")
        loop = running
    view = _View(loop)
    return [view.task(each) for each in asyncio.all_tasks(loop)]


class _View:
    """Describes the tasks of one loop."""

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._now = time.monotonic()
        self._seen = _seen(loop)
        self._current = asyncio.current_task(loop)
        self._thread = loop._thread_id
        self._requests = {
            id(task): (request, caller, age / 1000)
            for task, caller, age, request in loop._request_tasks()
        }

    def task(self, task: asyncio.Task[Any]) -> Task:
        coroutine = task.get_coro()
        is_running = task is self._current
        frames = self._running(coroutine) if is_running else awaits.frames(coroutine)
        first, waits = self._times(task, frames)
        request, caller, age = self._requests.get(id(task), (None, None, None))
        return Task(
            id=id(task),
            name=text(task.get_name()),
            state="running" if is_running else _state(task),
            cancelling=task.cancelling(),
            coroutine=text(named(coroutine_name, coroutine)),
            stack=tuple(map(_frame, frames)),
            awaited_by=tuple(map(id, awaits.awaiters(task))),
            caller=caller or _caller(task),
            request=request,
            age=self._now - first if age is None else age,
            age_is_exact=age is not None,
            waits=waits,
            serves=_served_by(coroutine),
        )

    def _times(self, task: asyncio.Task[Any], frames: list[FrameType]) -> tuple[float, float]:
        """When it was listed first, and for how long it has been where it is."""
        place = (id(frames[-1]), frames[-1].f_lasti) if frames else None
        first, place_before, since = self._seen.get(task, (self._now, place, self._now))
        if place != place_before:
            since = self._now
        self._seen[task] = (first, place, since)
        return first, self._now - since

    def _running(self, coroutine: object) -> list[FrameType]:
        """The frames of the task that runs: those of its thread, down to the coroutine's own."""
        outermost = getattr(coroutine, "cr_frame", None)
        thread = sys._current_frames().get(self._thread or threading.get_ident())
        frames = frames_of_thread(thread)
        if outermost not in frames:
            return awaits.frames(coroutine)
        return frames[frames.index(outermost) :][: awaits.MAX_FRAMES]


#: When a task was listed first, where it was, and since when it is there.
_Times = tuple[float, tuple[int, int] | None, float]


def _seen(loop: ErlangEventLoop) -> weakref.WeakKeyDictionary[asyncio.Task[Any], _Times]:
    seen: weakref.WeakKeyDictionary[asyncio.Task[Any], _Times]
    seen = loop.__dict__.setdefault("_tasks_seen", weakref.WeakKeyDictionary())
    return seen


def _state(task: asyncio.Task[Any]) -> str:
    return "ready" if task._fut_waiter is None else "waiting"  # type: ignore[attr-defined]


def _caller(task: asyncio.Task[Any]) -> Pid | None:
    """From Python 3.12 on a task shows its context."""
    get_context = getattr(task, "get_context", None)
    return None if get_context is None else _native._caller_in(get_context())


#: Their coroutines have a local variable `scope`.
_OF_ASGI = ("erlang_loop.asgi.running", "erlang_loop.asgi.websocket")


def _served_by(coroutine: object) -> str | None:
    """What the ASGI server has started the task for."""
    frame = getattr(coroutine, "cr_frame", None)
    if frame is None or frame.f_globals.get("__name__") not in _OF_ASGI:
        return None
    scope = frame.f_locals.get("scope")
    if not isinstance(scope, dict):
        return None
    client = scope.get("client")
    address = f" {client[0]}:{client[1]}" if client else ""
    return text(f"{scope.get('method', 'WebSocket')} {scope.get('path')}{address}")


def _frame(frame: FrameType) -> Frame:
    code = frame.f_code
    return Frame(text(code.co_filename), frame.f_lineno or 0, text(code.co_qualname))


# ---- for py_dashboard ----

#: How long a loop may take to begin its next turn.
_PATIENCE = 1.0


def cancel(number: int, task_id: int, name: str, request: int | None) -> bool | None:
    """Cancel a task, on its loop's own thread. Whether it was there; None if the loop is stuck.

    Another task may have the `id` of one that has ended: name and request must be the same, too.
    """
    loop = _loop(number)
    if loop is None:
        return False
    found: concurrent.futures.Future[bool] = concurrent.futures.Future()

    def look() -> None:
        if found.set_running_or_notify_cancel():
            found.set_result(_cancel_in(loop, (task_id, name, request)))

    try:
        loop.call_soon_threadsafe(look)
    except RuntimeError:  # It was closed.
        return False
    try:
        return found.result(_PATIENCE)
    except concurrent.futures.TimeoutError:
        # Nothing may be cancelled after the page says that nothing was.
        return None if found.cancel() else found.result()


def _cancel_in(loop: ErlangEventLoop, wanted: tuple[int, str, int | None]) -> bool:
    requests = {id(task): request for task, _, _, request in loop._request_tasks()}
    for task in asyncio.all_tasks(loop):
        if (id(task), text(task.get_name()), requests.get(id(task))) == wanted:
            return task.cancel()
    return False


# ---- for py_inspect ----

#: How many tasks there are, and the descriptions of those that are listed.
_Reply = Callable[[tuple[int, list[tuple[Any, ...]]]], None]


def _list_tasks(reply: _Reply, number: int | None) -> None:
    """On the loop's own thread in several turns; from another thread, of that loop, at once."""
    if number is None:
        loop = asyncio.get_running_loop()
        if isinstance(loop, ErlangEventLoop):
            _List(loop, reply).step()
        return
    found = None if _runs_freely() else _loop(number)
    if found is not None:
        listed = _List(found, reply)
        while listed.describe():
            pass


def _runs_freely() -> bool:
    """Without the GIL, a loop's tasks change while they are read."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _loop(number: int) -> ErlangEventLoop | None:
    return next((loop for loop in all_loops() if loop._number == number), None)


class _List:
    """A list in the making."""

    def __init__(self, loop: ErlangEventLoop, reply: _Reply) -> None:
        self._loop = loop
        self._reply = reply
        self._view = _View(loop)
        self._left = list(asyncio.all_tasks(loop))
        self._total = len(self._left)
        del self._left[MAX_TASKS:]
        self._listed: list[tuple[Any, ...]] = []

    def step(self) -> None:
        if self.describe():
            self._loop.call_soon(self.step, context=Context())

    def describe(self) -> bool:
        """Describe some more. Returns whether some are left."""
        for task in self._left[-_SLICE:]:
            if not task.done():
                self._listed.append(_crossing(self._view.task(task)))
        del self._left[-_SLICE:]
        if not self._left:
            self._reply((self._total, self._listed))
        return bool(self._left)


def _crossing(task: Task) -> tuple[Any, ...]:
    """As a term for Erlang: `py_inspect:task/1`."""
    return (
        task.id,
        task.name,
        task.state,
        task.cancelling,
        task.coroutine,
        [(frame.file, frame.line, frame.function) for frame in task.stack],
        list(task.awaited_by),
        task.caller,
        task.request,
        int(task.age * 1000),
        task.age_is_exact,
        int(task.waits * 1000),
        task.serves,
    )


if __name__ == "__main__":
    from .attach import main

    sys.exit(main())
