"""sys.stdout and sys.stderr: send lines to the group leader of the calling process."""

from __future__ import annotations

import io
import sys

from .native import _flush, _write

TYPE_CHECKING = False  # Without importing typing: this runs at the start of every interpreter.
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from typing_extensions import Buffer


class GroupLeaderBuffer(io.BufferedIOBase):
    """A binary stream that sends whole lines at once, and incomplete ones when flushed.

    Native code buffers lines per thread and group leader. If Erlang does not take output
    (`redirect_output` is false, the application is stopped, or this is a forked copy of the node),
    it goes to the previous stream.
    """

    def __init__(self, number: int, name: str, before: TextIO | None) -> None:
        self.name = name
        self.mode = "wb"
        self._number = number
        self._before: BinaryIO | None = getattr(before, "buffer", None)
        #: An incomplete line for the previous stream.
        self._begun = b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return that of the previous stream, for child processes (`stderr=sys.stderr`) and
        `faulthandler`: a group leader has none. Raises if the previous stream has none either."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        return super().fileno() if self._before is None else self._before.fileno()

    def write(self, data: Buffer, /) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        # Raises TypeError for anything that is not a buffer.
        bytes_ = data if isinstance(data, bytes) else bytes(memoryview(data))
        if not _write(self._number, bytes_):
            lines, newline, self._begun = (self._begun + bytes_).rpartition(b"\n")
            self._write_before(lines + newline)
        return len(bytes_)

    def flush(self) -> None:
        if not self.closed:
            _flush(self._number)
            begun, self._begun = self._begun, b""
            self._write_before(begun)

    def _write_before(self, data: bytes) -> None:
        if data and self._before is not None:
            self._before.write(data)
            self._before.flush()


def install() -> None:
    """Replace sys.stdout and sys.stderr. `sys.__stdout__` and `sys.__stderr__` stay."""
    sys.stdout = _stream(1, "<stdout>", sys.__stdout__, "strict")
    sys.stderr = _stream(2, "<stderr>", sys.__stderr__, "backslashreplace")


def _stream(number: int, name: str, before: TextIO | None, errors: str) -> io.TextIOWrapper:
    buffer = GroupLeaderBuffer(number, name, before)
    # write_through: text is buffered only in native code, separately for each group leader.
    stream = io.TextIOWrapper(
        buffer,
        encoding="utf-8",
        errors=errors,
        newline="\n",
        write_through=True,
    )
    stream.mode = "w"  # type: ignore[misc] # as Python's own have it
    return stream
