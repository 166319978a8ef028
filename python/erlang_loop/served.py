"""A loop that Erlang started: `py_event_loop:start_link/1`. Its thread calls `serve`."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

from . import _native
from .loop import ErlangEventLoop

#: Name, state, what it runs, and where it stands: (file, line, function), outermost first.
Description = tuple[str, str, str, list[tuple[str, int, str]]]


def serve(name: str, init: str, ready: Callable[[], None], patience: float) -> list[Description]:
    """Run `init`, then the loop until Erlang wants it to end. Answers what did not end."""
    left, closed = _serve(name, init, ready, patience)
    if closed() is not None:
        # Exceptions of cancelled tasks hold it in cycles, and with it two fds.
        gc.collect()
    return left


def _serve(
    name: str, init: str, ready: Callable[[], None], patience: float
) -> tuple[list[Description], weakref.ref[ErlangEventLoop]]:
    loop = ErlangEventLoop()
    asyncio.set_event_loop(loop)
    try:
        if init:
            _initialize(loop, name, init)
        ready()
        _run(loop)
        return _finish(loop, patience), weakref.ref(loop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _initialize(loop: ErlangEventLoop, name: str, init: str) -> None:
    """Runs the init code. What it prints, and what it starts, goes to the owner's group leader."""
    asked = _native._origin.set(_native._owner(loop))
    try:
        exec(compile(init, f"<init of {name}>", "exec"), {"__name__": "__erlang_loop_init__"})
    finally:
        _native._origin.reset(asked)


def _run(loop: ErlangEventLoop) -> None:
    while True:
        try:
            return loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            # Whoever asked for the task that raised it has got it as the answer. Other tasks
            # of the loop, and the node, do not end for it.
            loop.call_exception_handler(
                {"message": "A task wanted to end the program", "exception": error}
            )


def _finish(loop: ErlangEventLoop, patience: float) -> list[Description]:
    deadline = loop.time() + patience
    left: set[asyncio.Task[Any]] = set()
    tasks = asyncio.all_tasks(loop)
    if tasks:
        for task in tasks:
            task.cancel()
        _, left = loop.run_until_complete(asyncio.wait(tasks, timeout=patience))
    finalizers = loop.create_task(loop.shutdown_asyncgens(), name="shutdown_asyncgens")
    wait = asyncio.wait([finalizers], timeout=max(0.1, deadline - loop.time()))
    _, unfinished = loop.run_until_complete(wait)
    return [_describe(task, "waiting") for task in left | unfinished]


def describe_tasks() -> list[Description]:
    """The tasks of the loop it runs on."""
    loop = asyncio.get_running_loop()
    current = asyncio.current_task(loop)
    return [
        _describe(task, "running" if task is current else "waiting")
        for task in asyncio.all_tasks(loop)
    ]


def _describe(task: asyncio.Task[Any], state: str) -> Description:
    coroutine = task.get_coro()
    what = getattr(coroutine, "__qualname__", None) or repr(coroutine)
    stack = [
        (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        for frame in task.get_stack()
    ]
    return (task.get_name(), state, what, stack)
