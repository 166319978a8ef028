"""The reading end of a channel: what `py:channel/1` opens and `py_channel:send/2` sends."""

from __future__ import annotations

import io
import sys
import types
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .native import Channel as NativeChannel
from .native import Ref

if TYPE_CHECKING:
    import asyncio

    AnyTask = asyncio.Task[Any]

#: A loop runs its other tasks after this many items that did not have to be waited for.
_ITEMS_IN_A_ROW = 16


class Channel(NativeChannel):
    """Items that Erlang processes send. Erlang code passes a channel to Python as an argument.

    Iterate with `for` on a thread, with `async for` in a task of any loop. Several threads and
    tasks may read: each item goes to one of them. Senders wait while the channel is full. When the
    last reference to this object is gone, or a task that reads fails, they get an error.
    """

    __module__ = "erlang"

    def __init__(self, made: Ref) -> None:
        self._in_a_row = 0
        #: The tasks that read and have not ended.
        self._tasks: weakref.WeakSet[AnyTask] = weakref.WeakSet()

    def __repr__(self) -> str:
        kind = "bytes" if self.is_bytes else "terms"
        return f"<erlang.Channel of {kind}{', closed' if self.closed else ''}>"

    def close(self, error: BaseException | None = None) -> None:
        """Read no more: drop all items. Senders get `{error, closed}`, or the exception."""
        self._close(error)

    # ---- threads ----

    def receive(self, timeout: float | None = None) -> Any:
        """Return the next item. The thread waits without the GIL.

        Raises EOFError when Erlang has closed the channel, `erlang.Error` when it was closed with
        a reason or its owner has died, and TimeoutError if nothing arrives within `timeout`
        seconds.
        """
        return self._receive(timeout, False)

    def _receive(self, timeout: float | None, view: bool) -> Any:
        while True:
            found = self._take(view)
            if found is not None:
                return found[0]
            if not self._wait(timeout):
                raise TimeoutError(f"no item within {timeout} s")

    def file(self, buffer_size: int = 65536) -> io.BufferedReader:
        """Return the bytes as a binary file, for threads: `read`, `readline`, `readinto`, lines.

        Closing the file closes the channel. For text, wrap it in `io.TextIOWrapper`.
        """
        self._check_bytes()
        return io.BufferedReader(_RawFile(self), buffer_size)

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._close(error)

    # ---- tasks ----

    async def async_receive(self, timeout: float | None = None) -> Any:
        """Return the next item: `receive` for tasks."""
        if self._in_a_row >= _ITEMS_IN_A_ROW:
            self._in_a_row = 0
            await _turn()
        found = self._take()
        if found is None:
            found = await self._arrival(timeout)
        else:
            self._in_a_row += 1
        return found[0]

    def __aiter__(self) -> Channel:
        self._note_task()
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.async_receive()
        except EOFError:
            raise StopAsyncIteration from None

    def async_file(self) -> AsyncFile:
        """Return the bytes as a file whose methods are awaited."""
        self._check_bytes()
        return AsyncFile(self)

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._close(error)

    async def _arrival(self, timeout: float | None) -> tuple[Any]:
        import asyncio

        self._in_a_row = 0
        self._note_task()
        if timeout is None:
            return await self._awaited()
        if not timeout >= 0:
            raise ValueError("timeout must not be negative")
        try:
            async with asyncio.timeout(timeout):
                return await self._awaited()
        except TimeoutError:
            raise TimeoutError(f"no item within {timeout} s") from None

    async def _awaited(self) -> tuple[Any]:
        while True:
            waiter = self._want()
            if waiter is not None:
                try:
                    await waiter.future
                except BaseException:
                    waiter.abandon()
                    raise
            found = self._take()
            if found is not None:
                return found

    # ---- the end ----

    def _note_task(self) -> None:
        """Close the channel when the task that reads fails: its exception may be kept, and with
        it this object.
        """
        asyncio = sys.modules.get("asyncio")
        if asyncio is None or asyncio._get_running_loop() is None:
            return
        task = asyncio.current_task()
        if task is not None and task not in self._tasks:
            self._tasks.add(task)
            own = weakref.ref(self)

            def ended(task: AnyTask) -> None:
                channel = own()
                if channel is not None:
                    channel._task_ended(task)

            task.add_done_callback(ended)

    def _task_ended(self, task: AnyTask) -> None:
        self._tasks.discard(task)
        if self._tasks:
            return
        if task.cancelled():
            self._close()
        else:
            # Not `task.exception()`: that would mark the exception as retrieved.
            error = getattr(task, "_exception", None)
            if error is not None:
                self._close(error)

    def _check_bytes(self) -> None:
        if not self.is_bytes:
            raise TypeError("a channel of terms has no file: open it with type => bytes")


@types.coroutine
def _turn() -> Generator[None, None, None]:
    """Let other tasks run."""
    yield


class _RawFile(io.RawIOBase):
    """The bytes of a channel, piece by piece, for an `io.BufferedReader`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        #: What was not read of the last piece.
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._rest:
            try:
                self._rest = self._channel._receive(None, True)
            except EOFError:
                return 0
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._channel.close()
        super().close()


class AsyncFile:
    """The bytes of a channel, as a file for one task: `await file.read(n)`, `async for line`."""

    __module__ = "erlang"

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._piece = b""
        #: How much of the piece was read.
        self._at = 0

    async def read1(self, size: int = -1) -> bytes:
        """Read what has arrived, at most `size` bytes; `b""` only at the end."""
        if not await self._has_more():
            return b""
        start, left = self._at, len(self._piece) - self._at
        self._at += left if size < 0 else min(size, left)
        return self._piece[start : self._at]

    async def _has_more(self) -> bool:
        if self._at == len(self._piece):
            try:
                self._piece = await self._channel.async_receive()
            except EOFError:
                return False
            self._at = 0
        return True

    async def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end; without a size everything."""
        parts: list[bytes] = []
        left = sys.maxsize if size < 0 else size
        while left:
            part = await self.read1(left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def readinto(self, buffer: Any) -> int:
        """Read into a writable buffer; return the number of bytes, 0 only at the end."""
        target = memoryview(buffer).cast("B")
        part = await self.read1(len(target))
        target[: len(part)] = part
        return len(part)

    async def readline(self) -> bytes:
        """Read up to and including the next newline."""
        parts: list[bytes] = []
        while await self._has_more():
            end = self._piece.find(b"\n", self._at)
            parts.append(await self.read1(-1 if end < 0 else end + 1 - self._at))
            if end >= 0:
                break
        return b"".join(parts)

    def __aiter__(self) -> AsyncFile:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._channel.close(error)
