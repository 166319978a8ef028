"""An open file whose methods are coroutines."""

from __future__ import annotations

import asyncio
import builtins
import io
import os
from collections.abc import AsyncIterator, Callable, Generator
from typing import IO, TYPE_CHECKING, Any, AnyStr, Generic, TypeVar

from .blocking import Path
from .whole import in_pool

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class AsyncFile(Generic[AnyStr]):
    """A file. Its operations happen one after the other, in the order they were asked for."""

    def __init__(self, file: IO[AnyStr]) -> None:
        self._file: IO[AnyStr] = file
        # Files have one position: two operations at once would each find it moved.
        self._turn = asyncio.Lock()

    @property
    def name(self) -> Any:
        return self._file.name

    @property
    def closed(self) -> bool:
        return self._file.closed

    def fileno(self) -> int:
        return self._file.fileno()

    async def read(self, size: int = -1) -> AnyStr:
        """At most so much; everything that is left if negative."""
        return await self._do(self._file.read, size)

    async def readline(self) -> AnyStr:
        """The next line with its end; empty at the end of the file."""
        return await self._do(self._file.readline)

    async def readlines(self) -> list[AnyStr]:
        """The lines that are left."""
        return await self._do(self._file.readlines)

    async def write(self, data: AnyStr) -> int:
        """Writes all of it; answers how much that is."""
        return await self._do(self._file.write, data)

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position, and answers it."""
        return await self._do(self._file.seek, offset, whence)

    async def tell(self) -> int:
        """The position."""
        return await self._do(self._file.tell)

    async def truncate(self, size: int | None = None) -> int:
        """Cuts it off at `size` or the position, and answers the size."""
        return await self._do(self._file.truncate, size)

    async def flush(self) -> None:
        """What was written is with the operating system."""
        await self._do(self._file.flush)

    async def sync(self) -> None:
        """What was written is on the disk."""

        def flush_and_sync() -> None:
            self._file.flush()
            os.fsync(self._file.fileno())

        await self._do(flush_and_sync)

    async def close(self) -> None:
        """Ends it, after the operations that are under way. Twice is once."""
        await self._do(self._file.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[AnyStr]:
        while line := await self.readline():
            yield line

    async def _do(self, function: Callable[..., T], *args: Any) -> T:
        async with self._turn:
            running = asyncio.ensure_future(in_pool(function, *args))
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                # The thread cannot be stopped: the next operation waits for it.
                await asyncio.wait([running])
                raise


class _Opening(Generic[AnyStr]):
    """What `files.open` answers: await it, or use it with `async with`."""

    def __init__(self, make: Callable[[], IO[AnyStr]]) -> None:
        self._make: Callable[[], IO[AnyStr]] = make
        self._opened: AsyncFile[AnyStr] | None = None

    def __await__(self) -> Generator[Any, Any, AsyncFile[AnyStr]]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncFile[AnyStr]:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *_exception: object) -> None:
        assert self._opened is not None
        await self._opened.close()

    async def _open(self) -> AsyncFile[AnyStr]:
        opening = asyncio.ensure_future(in_pool(self._make))
        try:
            return AsyncFile(await asyncio.shield(opening))
        except asyncio.CancelledError:
            # Nobody will close it: it is closed as soon as it is open.
            await asyncio.wait([opening])
            if not opening.cancelled() and opening.exception() is None:
                await in_pool(opening.result().close)
            raise


def open_file(
    path: Path | int,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> _Opening[Any]:
    """Open a file, as the built-in `open`. Text is UTF-8 unless `encoding` says otherwise."""
    if encoding is None and "b" not in mode:
        encoding = "utf-8"

    def make() -> IO[Any]:
        return builtins.open(path, mode, buffering, encoding, errors, newline)

    return _Opening(make)
