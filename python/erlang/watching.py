"""Monitors and links between tasks and processes."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from .atom import Atom
from .errors import Error
from .mailboxes import Mailbox, mailbox
from .native import Pid, Ref

if TYPE_CHECKING:
    import asyncio


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
        asked = self._mailbox._native.ask("monitor", [self._process])
        cancelled = await _wait_done(asked)
        if cancelled is not None:
            if asked.exception() is None:
                await self._end(asked.result())
            raise cancelled
        ref = asked.result()
        assert isinstance(ref, Ref)
        self._ref = ref
        return ref

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._ref is not None
        cancelled = await self._end(self._ref)
        if cancelled is not None:
            raise cancelled

    async def _end(self, ref: Ref) -> asyncio.CancelledError | None:
        assert self._mailbox is not None
        cancelled = await _undo(self._mailbox, "demonitor", [ref, [Atom("flush")]])
        self._mailbox._native.flush(ref)
        return cancelled


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
        self._cancelling = task.cancelling()
        links = box._links.setdefault(self._pid, [])
        links.append(self)
        if len(links) == 1:
            box._native.link(self._pid)
            asked = box._native.ask("link", [self._pid])
            # The death of a process that is dead already may arrive before the result does.
            error = await _wait_done(asked) or asked.exception()
            if error is not None:
                await self._close(error)
                raise error
        return self._pid

    def _died(self, reason: Any) -> None:
        """Called on the loop, so the task is waiting at an `await`."""
        assert self._mailbox is not None
        task = self._mailbox._task
        if task is None or self._closing or self._broken or reason == "normal":
            return
        self._reason = reason
        self._broken = True
        task.cancel()

    async def _unlink(self) -> asyncio.CancelledError | None:
        assert self._mailbox is not None
        self._closing = True
        links = self._mailbox._links[self._pid]
        cancelled = None
        if len(links) == 1:
            # The link stays registered until the process has unlinked, so that an exit signal is
            # not taken for one from an unrelated process.
            cancelled = await _undo(self._mailbox, "unlink", [self._pid])
            self._mailbox._native.unlink(self._pid)
        links.remove(self)
        if not links:
            del self._mailbox._links[self._pid]
        return cancelled

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
        cancelled = await self._unlink()
        task = self._mailbox._task
        if task is not None and self._broken and task.uncancel() <= self._cancelling:
            # The task was cancelled only because the other process died.
            if isinstance(cancelled if error is None else error, asyncio.CancelledError):
                raise Error("exit", self._reason) from error
            return
        if cancelled is not None:
            raise cancelled


async def _wait_done(asked: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait for a request to a mailbox's process; return a cancellation that arrived meanwhile.

    The process completes the request in any case, at once, and the caller must know the result to
    be able to undo it. The caller raises the cancellation afterwards, as `asyncio.Condition.wait`
    does.
    """
    import asyncio

    cancelled = None
    while not asked.done():
        try:
            await asyncio.wait([asked])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def _undo(box: Mailbox, function: str, args: list[Any]) -> asyncio.CancelledError | None:
    """Send the request that undoes an earlier one. A killed process has nothing left to undo."""
    cancelled = None
    try:
        asked = box._native.ask(function, args)
        cancelled = await _wait_done(asked)
        asked.result()
    except Error as error:
        if error.reason != "noproc":
            raise
    return cancelled


def monitor(process: Pid | str | tuple[str, str]) -> Monitor:
    """Monitor a process for the duration of an `async with` block.

    When the process ends, the task's mailbox receives
    `(Atom("DOWN"), ref, Atom("process"), process, reason)`, as in Erlang; `ref` is the value of
    `async with ... as`. For a process that has already ended the message arrives at once.
    """
    return Monitor(process)


def link(pid: Pid) -> Link:
    """Link the task to a process for the duration of an `async with` block.

    If `pid` ends with a reason other than `normal`, the block is cancelled where it waits, and
    `async with` raises `erlang.Error` with kind `exit` and the reason. If the task ends inside the
    block, the linked process gets an exit signal.
    """
    return Link(pid)
