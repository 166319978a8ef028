"""The server: accepts connections up to the limit and closes them in order."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from ..callbacks import CallbackLoop
from .connection import Connection
from .limits import Limits
from .messages import Request, Response

#: Connections accepted at once before other callbacks run.
_AT_ONCE = 64

Handler = Callable[[Request, Response], object]


class HttpServer:
    """Serves HTTP/1.1 on a CallbackLoop: `handler(request, response)` handles each request.

    A handler may keep the response and send it later. If it raises, the exception is reported,
    and the server sends 500 if nothing was sent yet.
    """

    def __init__(
        self,
        loop: CallbackLoop,
        handler: Handler,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: Limits | None = None,
        backlog: int = 1024,
    ) -> None:
        self.loop = loop
        self.handler = handler
        self.limits = limits or Limits()
        self._connections: set[Connection] = set()
        self._closed: Callable[[], None] | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=backlog)
        self._listener.setblocking(False)
        self._accepts = False
        self._watch()
        loop.at_shutdown_wait(self._end, self._abort)

    @property
    def address(self) -> Any:
        """The address it listens on, with the port the system chose if 0 was given."""
        return self._listener.getsockname()

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    def close(self) -> None:
        """Accept no more clients, finish current responses and close idle connections."""
        if self._listener.fileno() >= 0:
            self.loop.remove_fd(self._listener)
            self._listener.close()
            self.loop._endings.remove(self._end)
        for connection in list(self._connections):
            connection.finish()

    # Called by connections.

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._watch()
        if self._closed is not None and not self._connections:
            self._closed()

    def report(self, message: str, error: BaseException) -> None:
        self.loop.call_exception_handler({"message": message, "exception": error})

    def _watch(self) -> None:
        """Accept connections up to the limit."""
        wanted = len(self._connections) < self.limits.connections
        if wanted == self._accepts or self._listener.fileno() < 0:
            return
        self._accepts = wanted
        if wanted:
            self.loop.add_reader(self._listener, self._accept)
        else:
            self.loop.remove_reader(self._listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if not self._accepts:
                return
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            try:
                sock.setblocking(False)
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                # This client is already gone; continue with others.
                sock.close()
                continue
            self._connections.add(Connection(self, sock, address))
            self._watch()

    def _end(self, done: Callable[[], None]) -> None:
        """The loop is shutting down."""
        self._closed = done
        self.close()
        if not self._connections:
            done()

    def _abort(self) -> None:
        """The loop's patience has run out."""
        for connection in list(self._connections):
            connection.close()
