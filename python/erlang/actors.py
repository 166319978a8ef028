"""Actors: coroutines with a pid."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .atom import Atom
from .mailboxes import Mailbox, _of_task
from .native import ObjectHandle, Pid, Ref, _call

if TYPE_CHECKING:
    import asyncio

#: Loops have only weak references to their tasks.
_running: set[asyncio.Task[Any]] = set()


def spawn(function: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any, **kwargs: Any) -> Pid:
    """Start `function(*args, **kwargs)` as a task of the running loop, and return its pid.

    In a thread without a running loop, the task runs on the node's default loop. When the task
    ends, the process exits with `normal`, or with the exception as the reason. If the process is
    killed, the task is cancelled.
    """
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if loop is None:
        actor = ObjectHandle(functools.partial(function, *args, **kwargs))
        pid: Pid = _call("py_actor", Atom("spawn_on_default"), [actor], None, None)
        return pid
    task = loop.create_task(_coroutine(function(*args, **kwargs)))
    task.set_name(_name(function))
    _running.add(task)
    task.add_done_callback(_running.discard)
    try:
        mailbox = _of_task(task)
    except BaseException:
        task.cancel()
        raise
    mailbox._is_actor = True
    return mailbox.pid


def spawn_on(
    loop: Pid | Atom | str, function: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any
) -> Pid:
    """Start `function(*args)` as a task of another loop, and return its pid.

    The loop is given by its name or pid. It may live in a peer or on another node: there the
    function is imported by its module and name, and the arguments are converted as for Erlang.
    """
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if module in (None, "__main__") or name is None or "<" in name:
        raise TypeError(
            f"{function!r} cannot be imported by its name: define it at the top level of a module"
        )
    target = Atom.existing(loop) if isinstance(loop, str) else loop
    pid: Pid = _call("py_actor", Atom("spawn_on"), [target, module, name, list(args)], None, None)
    return pid


def _coroutine(made: object) -> Coroutine[Any, Any, Any]:
    if not inspect.iscoroutine(made):
        raise TypeError(f"an actor must be a coroutine function, but this one returned {made!r}")
    return made


def _name(function: object) -> str:
    function = getattr(function, "func", function)
    return str(getattr(function, "__qualname__", function))


# Called by py_actor: the first on a call thread, the others on the loop.


def _check(module: str, function: str) -> None:
    """Import the module, which takes time, and find the function."""
    found = _find(module, function)
    if not callable(found):
        raise TypeError(f"an actor must be a coroutine function, not {found!r}")


async def _run_object(made: Ref, function: Callable[[], Any]) -> None:
    await _run(made, function)


async def _run_function(made: Ref, module: str, function: str, *, args: list[Any]) -> None:
    await _run(made, functools.partial(_find(module, function), *args))


def _find(module: str, function: str) -> Any:
    # The statement's own function: it leaves Python's import machinery out of tracebacks.
    __import__(module)
    found: Any = sys.modules[module]
    for name in function.split("."):
        found = getattr(found, name)
    return found


async def _run(made: Ref, function: Callable[[], Any]) -> None:
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    mailbox = Mailbox(task, made)
    mailbox._is_actor = True
    task.set_name(_name(function))
    try:
        await _coroutine(function())
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # Here, because the task's done callback does not see the reason of an erlang.Error.
        mailbox._native.end(error)
        raise
