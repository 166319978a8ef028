"""Data that a connection has to send: at once if the socket accepts it, else later."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ..callbacks import CallbackLoop

if TYPE_CHECKING:
    from .connection import Connection

#: With more than this unsent, no more is produced.
HIGH_WATER = 65_536


class Output:
    """Unsent bytes of a socket."""

    def __init__(
        self,
        loop: CallbackLoop,
        sock: socket.socket,
        connection: Connection,
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._connection = connection
        self._waiting = bytearray()
        self._watched = False

    @property
    def full(self) -> bool:
        return len(self._waiting) > HIGH_WATER

    @property
    def empty(self) -> bool:
        return not self._waiting

    def add(self, data: bytes) -> None:
        self._waiting += data

    def flush(self) -> None:
        """Send as much as the socket accepts."""
        if not self._waiting or self._watched:
            return
        self._send()
        if self._waiting and not self._watched and self._sock.fileno() >= 0:
            self._watched = True
            self._loop.add_writer(self._sock, self._writable)

    def clear(self) -> None:
        self._waiting.clear()
        self._watched = False

    def _writable(self, _sock: socket.socket) -> None:
        self._send()
        if not self._waiting and self._watched:
            self._watched = False
            self._loop.remove_writer(self._sock)
            self._connection.drained()

    def _send(self) -> None:
        try:
            sent = self._sock.send(self._waiting)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._connection.lost(error)
            return
        del self._waiting[:sent]
        self._connection.progress()
