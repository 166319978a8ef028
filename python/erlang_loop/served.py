"""A loop that Erlang started: `py_event_loop:start_link/1`.

A runner's thread (`native/py_nif/src/runners/runner.rs`) creates it with `begin` and runs its
turns, between those of other loops that it may run.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from types import CodeType
from typing import Any

from erlang import sources

from . import compat
from .loop import ErlangEventLoop
from .tasks import Description, describe

_numbers = itertools.count(1)


class Served:
    """What a runner does with a loop, besides its turns."""

    def __init__(self, loop: ErlangEventLoop, patience: float) -> None:
        self.loop = loop
        self._patience = patience
        self._firstiter = loop._asyncgen_firstiter_hook
        self._finalizer = loop._asyncgen_finalizer_hook

    def enter(self) -> None:
        """The loop's turns come next: make the thread look as inside its `run_forever`."""
        loop = self.loop
        # It stays until the end: the loop is running, also while another one has its turn.
        loop._thread_id = threading.get_ident()
        loop._set_coroutine_origin_tracking(loop._debug)
        sys.set_asyncgen_hooks(firstiter=self._firstiter, finalizer=self._finalizer)
        asyncio.set_event_loop(loop)
        compat.running_loop_set(loop)

    def leave(self) -> None:
        """Another loop's turns come next."""
        compat.running_loop_set(None)
        asyncio.set_event_loop(None)
        self.loop._set_coroutine_origin_tracking(False)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=None)

    def wanted_to_exit(self, error: BaseException) -> None:
        """A callback raised SystemExit or KeyboardInterrupt."""
        self.loop.call_exception_handler(
            {"message": "A task wanted to end the program", "exception": error}
        )

    def finish(self, idle: bool) -> asyncio.Future[list[Description]]:
        """Start what ends all tasks. Its result is what did not end.

        `idle`: no callback waits for its turn. A loop that has no tasks either needs no task to
        end them: among thousands that end at once each would look through those of all others.
        """
        loop = self.loop
        if idle and not asyncio.all_tasks(loop) and not loop._asyncgens:
            ended: asyncio.Future[list[Description]] = loop.create_future()
            ended.set_result([])
            return ended
        return loop.create_task(_finish(loop, self._patience), name="erlang_loop.finish")

    def end(self) -> None:
        """Close the loop, which was left."""
        self.loop._thread_id = None
        self.loop.close()


def begin(name: str, init: str, patience: float) -> Served:
    """Make the loop and run its init code, which may use it."""
    loop = ErlangEventLoop()
    asyncio.set_event_loop(loop)
    try:
        if init:
            exec(_compile(name, init), {"__name__": "__erlang_loop_init__"})
        return Served(loop, patience)
    except BaseException:
        loop.close()
        raise
    finally:
        asyncio.set_event_loop(None)


def _compile(name: str, init: str) -> CodeType:
    owner = "a loop" if name == "undefined" else name
    file = f"<init of {owner} {next(_numbers)}>"
    try:
        code = compile(init, file, "exec")
    except SyntaxError as error:
        sources.complete(error, init)
        raise
    sources.keep(file, init, [code])
    return code


async def _finish(loop: ErlangEventLoop, patience: float) -> list[Description]:
    deadline = loop.time() + patience
    left: set[asyncio.Task[Any]] = set()
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    if tasks:
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=patience)
    finalizers = loop.create_task(loop.shutdown_asyncgens(), name="shutdown_asyncgens")
    _, unfinished = await asyncio.wait([finalizers], timeout=max(0.1, deadline - loop.time()))
    return [describe(task) for task in left | unfinished]
