"""The operations for a CallbackLoop: each takes a callback for its result."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..callbacks import CallbackLoop, PoolCall
from . import blocking
from .blocking import Path

OnError = Callable[[BaseException], object] | None


def on(loop: CallbackLoop) -> CallbackFiles:
    """File operations in the pool of a loop."""
    return CallbackFiles(loop)


class CallbackFiles:
    """The loop calls `callback(result)`, or `on_error(exception)` if the operation fails.

    Without `on_error` it calls its exception handler.
    """

    def __init__(self, loop: CallbackLoop) -> None:
        self._loop = loop

    def read_bytes(
        self, path: Path, callback: Callable[[bytes], object], on_error: OnError = None
    ) -> PoolCall:
        """Read a whole file."""
        return self._run(blocking.read_bytes, (path,), callback, on_error)

    def read_text(
        self,
        path: Path,
        callback: Callable[[str], object],
        on_error: OnError = None,
        *,
        encoding: str = "utf-8",
    ) -> PoolCall:
        """Read a whole file as text."""
        return self._run(blocking.read_text, (path, encoding), callback, on_error)

    def write_bytes(
        self,
        path: Path,
        data: bytes,
        callback: Callable[[int], object] | None = None,
        on_error: OnError = None,
    ) -> PoolCall:
        """Replace the contents of a file; the result is the number of bytes."""
        return self._run(blocking.write_bytes, (path, data), callback, on_error)

    def write_text(
        self,
        path: Path,
        text: str,
        callback: Callable[[int], object] | None = None,
        on_error: OnError = None,
        *,
        encoding: str = "utf-8",
    ) -> PoolCall:
        """Replace the contents of a file; the result is the number of characters."""
        return self._run(blocking.write_text, (path, text, encoding), callback, on_error)

    def stat(
        self, path: Path, callback: Callable[[os.stat_result], object], on_error: OnError = None
    ) -> PoolCall:
        """Like `os.stat`."""
        return self._run(blocking.stat, (path,), callback, on_error)

    def exists(
        self, path: Path, callback: Callable[[bool], object], on_error: OnError = None
    ) -> PoolCall:
        """Whether a file or folder of this name exists."""
        return self._run(blocking.exists, (path,), callback, on_error)

    def listdir(
        self, path: Path, callback: Callable[[list[str]], object], on_error: OnError = None
    ) -> PoolCall:
        """The names in a folder, in no particular order."""
        return self._run(blocking.listdir, (path,), callback, on_error)

    def remove(
        self,
        path: Path,
        callback: Callable[[None], object] | None = None,
        on_error: OnError = None,
    ) -> PoolCall:
        """Remove a file."""
        return self._run(blocking.remove, (path,), callback, on_error)

    def rename(
        self,
        source: Path,
        target: Path,
        callback: Callable[[None], object] | None = None,
        on_error: OnError = None,
    ) -> PoolCall:
        """Rename a file; replaces a file that has the new name."""
        return self._run(blocking.rename, (source, target), callback, on_error)

    def _run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        callback: Callable[[Any], object] | None,
        on_error: OnError,
    ) -> PoolCall:
        return self._loop.run_in_pool(function, *args, callback=callback, on_error=on_error)
