"""The fds that a CallbackLoop watches, and what happens when their callbacks raise."""

from __future__ import annotations

import contextlib
import errno
import io
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _native
from ..placeholders import shown
from .always_ready import AlwaysReady

if TYPE_CHECKING:
    from .core import Core

#: An fd, or an object with one: a socket, a file, a pipe.
FileLike = int | Any
OnError = Callable[[Any, BaseException], object]

#: The system lacks a resource: that is not a fault of the listening socket, which is paused for a
#: moment.
_SHORTAGE = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE = 1.0


class Watches:
    """The watched fds of one loop."""

    def __init__(self, core: Core) -> None:
        self.core = core
        # By fd and whether it is for writing.
        self._files: dict[tuple[int, bool], AlwaysReady] = {}
        self._on_error: dict[tuple[int, bool], OnError] = {}
        self._chunk_sizes: dict[int, tuple[io.TextIOWrapper, int]] = {}

    def add(
        self,
        file: FileLike,
        writing: bool,
        callback: Callable[[Any], object],
        edge: bool,
        oneshot: bool,
        on_error: OnError | None,
    ) -> None:
        key = (_number(file), writing)
        self._forget(key)
        try:
            _native.watch_fd(self.core, key[0], writing, edge, oneshot, callback, (file,), None)
        except PermissionError:
            self._files[key] = AlwaysReady(self, file, callback, edge or oneshot)
        else:
            if isinstance(file, io.TextIOWrapper) and not writing:
                self._read_no_further(key[0], file)
        if on_error is not None:
            self._on_error[key] = on_error

    def remove(self, file: FileLike, writing: bool) -> bool:
        """Ends a watch; False if there was none. The file may be closed already."""
        fd = self._known_number(file)
        if fd is None:
            return False
        key = (fd, writing)
        known = key in self._files
        self._forget(key)
        if not writing and fd in self._chunk_sizes:
            text, size = self._chunk_sizes.pop(fd)
            text._CHUNK_SIZE = size  # type: ignore[attr-defined]
        remove = self.core._remove_writer if writing else self.core._remove_reader
        return remove(fd) or known

    def files(self) -> list[Any]:
        """What is watched, each once."""
        handles = [self.core._fd_handles(fd) for fd in self.core._watched_fds()]
        found = [handle._args[0] for pair in handles for handle in pair if handle and handle._args]
        found += [watch.file for watch in self._files.values()]
        return list({id(file): file for file in found}.values())

    def failed(self, handle: _native.Handle, file: Any, error: BaseException) -> None:
        """A callback raised, and was reported. If it is the callback of an fd, this handles the
        fd: it would be ready again at once, and fail again."""
        fd = self._known_number(file)
        if fd is None:
            return
        for writing, known in enumerate(self.core._fd_handles(fd)):
            if known is handle:
                self._give_up(file, (fd, bool(writing)), error)

    def file_failed(self, watch: AlwaysReady, error: BaseException) -> None:
        self._report("Exception in the callback of a file", error)
        for key, known in list(self._files.items()):
            if known is watch:
                self._give_up(watch.file, key, error)

    def _give_up(self, file: Any, key: tuple[int, bool], error: BaseException) -> None:
        on_error = self._on_error.get(key)
        if on_error is not None:
            try:
                on_error(file, error)
            except Exception as second:
                self._report(f"Exception in on_error {shown(on_error)}", second)
            return
        if _listens(file):
            # Other clients must still be accepted.
            if isinstance(error, OSError) and error.errno in _SHORTAGE:
                self._pause(file, key)
            return
        self.remove(file, False)
        self.remove(file, True)
        if isinstance(file, socket.socket):
            file.close()

    def _pause(self, file: Any, key: tuple[int, bool]) -> None:
        fd, writing = key
        handle = self.core._fd_handles(fd)[writing]
        callback = handle._callback if handle else None
        self.core._remove_reader(fd)
        if callback is not None:
            self.core.call_later(_PAUSE, self._resume, file, writing, callback)

    def _resume(self, file: Any, writing: bool, callback: Callable[[Any], object]) -> None:
        # It may have been closed, or be watched again, meanwhile.
        fd = _number(file) if file.fileno() >= 0 else -1
        if fd >= 0 and self.core._fd_handles(fd)[writing] is None:
            _native.watch_fd(self.core, fd, writing, False, False, callback, (file,), None)

    def _report(self, message: str, error: BaseException) -> None:
        self.core.call_exception_handler({"message": message, "exception": error})

    def _forget(self, key: tuple[int, bool]) -> None:
        self._on_error.pop(key, None)
        watch = self._files.pop(key, None)
        if watch is not None:
            watch.cancel()

    def _known_number(self, file: FileLike) -> int | None:
        if not isinstance(file, int) and not hasattr(file, "fileno"):
            return None
        with contextlib.suppress(ValueError, OSError):
            return _number(file)
        # A closed file has no number any more, but had one when it was watched.
        for fd in self.core._watched_fds():
            for handle in self.core._fd_handles(fd):
                if handle is not None and handle._args and handle._args[0] is file:
                    return fd
        for (fd, _), watch in self._files.items():
            if watch.file is file:
                return fd
        return None

    def _read_no_further(self, fd: int, file: io.TextIOWrapper) -> None:
        """`file.readline()` reads ahead and buffers lines; the kernel then reports no event for
        them. With chunks of one byte it stops at the end of the line."""
        with contextlib.suppress(AttributeError):
            size: int = file._CHUNK_SIZE  # type: ignore[attr-defined]
            file._CHUNK_SIZE = 1  # type: ignore[attr-defined]
            self._chunk_sizes.setdefault(fd, (file, size))


def _number(file: FileLike) -> int:
    """ValueError if there is none, as for a closed socket."""
    number = file if isinstance(file, int) else file.fileno()
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"Invalid file descriptor: {number!r}")
    return number


def _listens(file: Any) -> bool:
    if not isinstance(file, socket.socket):
        return False
    with contextlib.suppress(OSError):
        return bool(file.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False
