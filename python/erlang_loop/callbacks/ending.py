"""The orderly end of a CallbackLoop: callbacks, cancel, close, join, flush."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..placeholders import shown

if TYPE_CHECKING:
    from .loop import CallbackLoop
    from .pool import PoolCall

Begin = Callable[[Callable[[], None]], object]


class _Waiting(NamedTuple):
    """An end that takes time, and what to do if it takes too long."""

    begin: Begin
    abort: Callable[[], object] | None


class _Plain(NamedTuple):
    callback: Callable[..., object]
    args: tuple[Any, ...]


class Endings:
    """The callbacks of the loop's end, in the order in which they were added."""

    def __init__(self) -> None:
        self._added: list[_Plain | _Waiting] = []

    def add(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._added.append(_Plain(callback, args))

    def add_waiting(self, begin: Begin, abort: Callable[[], object] | None) -> None:
        self._added.append(_Waiting(begin, abort))

    def remove(self, added: Callable[..., object], *args: Any) -> None:
        """What `add` or `add_waiting` was given first, with the arguments of a plain callback."""
        plain = _Plain(added, args)
        self._added = [
            one
            for one in self._added
            if one != plain and not (isinstance(one, _Waiting) and one.begin == added)
        ]

    def run(self, loop: CallbackLoop, patience: float) -> None:
        """Calls them, the last one first, and waits for those that take time."""
        begun, self._added = self._added[::-1], []
        unfinished: dict[int, _Waiting] = {}

        def done(number: int) -> None:
            if unfinished.pop(number, None) and not unfinished and loop.is_running():
                loop.stop()

        for number, one in enumerate(begun):
            if isinstance(one, _Waiting):
                unfinished[number] = one
                if not _call(loop, one.begin, partial(done, number)):
                    del unfinished[number]
            else:
                _call(loop, one.callback, *one.args)
        if unfinished:
            limit = loop.call_later(patience, loop.stop)
            loop.run_forever()
            limit.cancel()
        for late in list(unfinished.values()):
            if late.abort is not None:
                _call(loop, late.abort)


def _call(loop: CallbackLoop, callback: Callable[..., object], *args: Any) -> bool:
    """Calls it; False if it raised an exception, which is reported and not passed on."""
    try:
        callback(*args)
    except Exception as error:
        message = f"Exception in {shown(callback)} at the end of the loop"
        loop.call_exception_handler({"message": message, "exception": error})
        return False
    return True


def shutdown(loop: CallbackLoop, patience: float) -> list[PoolCall]:
    if loop.is_closed():
        return []
    if loop.is_running():
        raise RuntimeError("the loop is running: stop() it first, then shut it down")
    # stop() may have been called when the loop was no longer running.
    loop._core._stopping = False
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
    """Cancels the coroutines that ran beside the callbacks."""
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
        # They may be closed, or None.
        if stream is not None and not stream.closed:
            stream.flush()
