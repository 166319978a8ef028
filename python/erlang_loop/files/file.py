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
    from typing import Self

T = TypeVar("T")


class AsyncFile(Generic[AnyStr]):
    """A file. Its operations run one after the other, in the order of the calls."""

    def __init__(self, file: IO[AnyStr]) -> None:
        self._file: IO[AnyStr] = file
        # A file has one position: two concurrent operations would disturb each other.
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
        """Read at most `size` bytes or characters; everything if negative."""
        return await self._do(self._file.read, size)

    async def readline(self) -> AnyStr:
        """Read the next line with its line end; empty at the end of the file."""
        return await self._do(self._file.readline)

    async def readlines(self) -> list[AnyStr]:
        """Read the remaining lines."""
        return await self._do(self._file.readlines)

    async def write(self, data: AnyStr) -> int:
        """Write everything; return how much was written."""
        return await self._do(self._file.write, data)

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position and return it."""
        return await self._do(self._file.seek, offset, whence)

    async def tell(self) -> int:
        """Return the position."""
        return await self._do(self._file.tell)

    async def truncate(self, size: int | None = None) -> int:
        """Truncate to `size` or the position; return the size."""
        return await self._do(self._file.truncate, size)

    async def flush(self) -> None:
        """Pass buffered data to the operating system."""
        await self._do(self._file.flush)

    async def sync(self) -> None:
        """Write data to the disk (fsync)."""

        def flush_and_sync() -> None:
            self._file.flush()
            os.fsync(self._file.fileno())

        await self._do(flush_and_sync)

    async def close(self) -> None:
        """Close the file after running operations. Closing twice has no effect."""
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
    """The value of `files.open`: await it, or use it with `async with`."""

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
            # No caller is left to close the file: it is closed as soon as it is open.
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
    """Open a file like the built-in `open`. Text is UTF-8 unless `encoding` is given."""
    if encoding is None and "b" not in mode:
        encoding = "utf-8"

    def make() -> IO[Any]:
        return builtins.open(path, mode, buffering, encoding, errors, newline)

    return _Opening(make)
