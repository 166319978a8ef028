"""Hearing of the death of processes: monitors and links."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from .atom import Atom
from .calls import _answer
from .errors import Error
from .mailboxes import Mailbox, mailbox
from .native import Pid, Ref


class Monitor:
    """`async with erlang.monitor(pid) as ref`"""

    __module__ = "erlang"

    def __init__(self, process: Pid | str | tuple[str, str]) -> None:
        self._process = process
        self._mailbox: Mailbox | None = None
        self._ref: Ref | None = None

    async def __aenter__(self) -> Ref:
        if self._mailbox is not None:
            raise RuntimeError("a monitor can be used once")
        self._mailbox = mailbox()
        ref = await _answer(self._mailbox._native.ask("monitor", [self._process]), None)
        assert isinstance(ref, Ref)
        self._ref = ref
        return ref

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._mailbox is not None
        assert self._ref is not None
        await _asked(self._mailbox, "demonitor", [self._ref, [Atom("flush")]])
        self._mailbox._native.flush(self._ref)


class Link:
    """`async with erlang.link(pid)`"""

    __module__ = "erlang"

    def __init__(self, pid: Pid) -> None:
        if not isinstance(pid, Pid):
            raise TypeError(f"a link is to a Pid, not to {type(pid).__name__}")
        self._pid = pid
        self._mailbox: Mailbox | None = None
        self._reason: Any = None
        self._broken = False
        self._closing = False
        self._cancelling = 0

    async def __aenter__(self) -> Pid:
        if self._mailbox is not None:
            raise RuntimeError("a link can be used once")
        box = self._mailbox = mailbox()
        task = box._task
        if task is None:
            raise RuntimeError("only tasks can be linked")
        if sys.version_info >= (3, 11):
            self._cancelling = task.cancelling()
        links = box._links.setdefault(self._pid, [])
        links.append(self)
        if len(links) == 1:
            box._native.link(self._pid)
            try:
                await _answer(box._native.ask("link", [self._pid]), None)
            except BaseException as error:
                # One that is dead already may be told of before the link has its answer.
                await self._close(error)
                raise
        return self._pid

    def _died(self, reason: Any) -> None:
        """Called on the loop, and so when the task waits for something."""
        assert self._mailbox is not None
        task = self._mailbox._task
        if task is None or self._closing or self._broken or reason == "normal":
            return
        self._reason = reason
        self._broken = True
        task.cancel()

    async def _unlink(self) -> None:
        assert self._mailbox is not None
        self._closing = True
        links = self._mailbox._links[self._pid]
        if len(links) == 1:
            # Before it is forgotten here: until then its death must not be taken for a stranger's.
            await _asked(self._mailbox, "unlink", [self._pid])
            self._mailbox._native.unlink(self._pid)
        links.remove(self)
        if not links:
            del self._mailbox._links[self._pid]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close(error)

    async def _close(self, error: BaseException | None) -> None:
        import asyncio

        assert self._mailbox is not None
        await self._unlink()
        task = self._mailbox._task
        if task is None or not self._broken:
            return
        if sys.version_info >= (3, 11) and task.uncancel() > self._cancelling:
            # Somebody else cancelled it, too.
            return
        if isinstance(error, asyncio.CancelledError):
            raise Error("exit", self._reason) from error


async def _asked(box: Mailbox, function: str, args: list[Any]) -> None:
    """Has the process do it. One that was killed has nothing left to undo."""
    try:
        await _answer(box._native.ask(function, args), None)
    except (Error, RuntimeError):
        if not box._native.ended:
            raise


def monitor(process: Pid | str | tuple[str, str]) -> Monitor:
    """While it lasts, the death of a process arrives as a message.

    `(Atom("DOWN"), ref, Atom("process"), process, reason)`, as in Erlang, in the mailbox of the
    task; `ref` is what `async with` answers. A process that is dead already is told of at once.
    """
    return Monitor(process)


def link(pid: Pid) -> Link:
    """While it lasts, the death of either side is an exception to the other.

    When `pid` dies for another reason than `normal`, what the task waits for inside is cancelled,
    and `async with` raises `erlang.Error` with kind `exit` and the reason. When the task ends
    inside, so does what it is linked to, unless that traps exits.
    """
    return Link(pid)
