"""How a CallbackLoop ends in order: tell, cancel, close, join, flush."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import CallbackLoop
    from .pool import PoolCall

Begin = Callable[[Callable[[], None]], object]


class Endings:
    """What wants to know of the end, in the order it was added."""

    def __init__(self) -> None:
        self._added: list[tuple[bool, Callable[..., object], tuple[Any, ...]]] = []

    def add(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._added.append((False, callback, args))

    def add_waiting(self, begin: Begin) -> None:
        self._added.append((True, begin, ()))

    def remove(self, callback: Callable[..., object], args: tuple[Any, ...] = ()) -> None:
        self._added = [one for one in self._added if one[1:] != (callback, args)]

    def run(self, loop: CallbackLoop, patience: float) -> None:
        """Calls them, and waits for those that take time."""
        waiting: set[object] = set()
        stop = loop.stop

        def done(mark: object) -> None:
            waiting.discard(mark)
            if not waiting:
                stop()

        begun, self._added = self._added[::-1], []
        for waits, callback, args in begun:
            mark = object()
            try:
                if waits:
                    waiting.add(mark)
                    callback(partial(done, mark))
                else:
                    callback(*args)
            except Exception as error:
                waiting.discard(mark)
                message = f"Exception in {callback!r} at the end of the loop"
                loop.call_exception_handler({"message": message, "exception": error})
        if waiting:
            limit = loop.call_later(patience, stop)
            loop.run_forever()
            limit.cancel()


def shutdown(loop: CallbackLoop, patience: float) -> list[PoolCall]:
    if loop.is_closed():
        return []
    if loop.is_running():
        raise RuntimeError("the loop is running: stop() it first, then shut it down")
    deadline = loop.time() + patience
    loop._endings.run(loop, patience)
    _end_asyncio(loop, deadline)
    core = loop._core
    core._timers_clear()
    core._ready_clear()
    for file in loop._watches.files():
        loop.remove_fd(file)
        if isinstance(file, socket.socket):
            file.close()
    left = loop._pool.close(max(0.0, deadline - loop.time()))
    _flush()
    loop.close()
    return left


def _end_asyncio(loop: CallbackLoop, deadline: float) -> None:
    """Coroutines that ran beside the callbacks."""
    core = loop._core
    tasks = asyncio.all_tasks(core)
    for task in tasks:
        task.cancel()
    if tasks:
        limit = max(0.0, deadline - core.time())
        core.run_until_complete(asyncio.wait(tasks, timeout=limit))
    core.run_until_complete(core.shutdown_asyncgens())


def _flush() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
    for stream in (sys.stdout, sys.stderr):
        # Somebody may have closed them, or there is none.
        if stream is not None and not stream.closed:
            stream.flush()
