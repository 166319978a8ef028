"""loop.sock_recv and similar methods: try first, then wait natively (bench: sock_pingpong)."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

from ... import _native
from ..asyncio_private import AsyncioLoop

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_NOT_NOW = (BlockingIOError, InterruptedError)


class SocketMethods(AsyncioLoop):
    """The part of ErlangEventLoop that works on the caller's own sockets."""

    def _check_socket(self, sock: socket.socket) -> int:
        """Check a socket as asyncio does, and return its fd."""
        if isinstance(sock, ssl.SSLSocket):
            raise TypeError("Socket cannot be of type SSLSocket")
        if self._debug and sock.gettimeout() != 0:
            raise ValueError("the socket must be non-blocking")
        return sock.fileno()

    def _check_no_transport(self, fd: int) -> None:
        if self._transport_of(fd) is not None:
            self._ensure_fd_no_transport(fd)

    async def _wait_for(
        self, sock: socket.socket, fd: int, writing: bool, method: str, *args: Any
    ) -> Any:
        """Call `sock.method(*args)` whenever the socket is ready, until it succeeds or fails."""
        self._check_no_transport(fd)
        operation = _native.SockOperation.retry(self, sock, fd, writing, method, args)
        try:
            return await operation.future
        finally:
            operation.finish()

    async def sock_recv(self, sock: socket.socket, n: int) -> bytes:
        """Receive data from the socket."""
        is_plain = type(sock) is socket.socket and type(n) is int and not self._debug
        if is_plain and 0 < n <= _native.SockOperation.MOST:
            got = _native.SockOperation.recv(self, sock, n)
            if type(got) is bytes:
                return got
            try:
                return await got.future  # type: ignore[no-any-return]
            finally:
                got.finish()
        fd = self._check_socket(sock)
        try:
            return sock.recv(n)
        except _NOT_NOW:
            pass
        return await self._wait_for(sock, fd, False, "recv", n)  # type: ignore[no-any-return]

    async def sock_recv_into(self, sock: socket.socket, buf: WriteableBuffer) -> int:
        """Receive data into a buffer; returns the number of bytes."""
        fd = self._check_socket(sock)
        try:
            return sock.recv_into(buf)
        except _NOT_NOW:
            pass
        return await self._wait_for(sock, fd, False, "recv_into", buf)  # type: ignore[no-any-return]

    async def sock_recvfrom(self, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
        """Receive a datagram and the address it came from."""
        fd = self._check_socket(sock)
        try:
            return sock.recvfrom(bufsize)
        except _NOT_NOW:
            pass
        return await self._wait_for(sock, fd, False, "recvfrom", bufsize)  # type: ignore[no-any-return]

    async def sock_recvfrom_into(
        self, sock: socket.socket, buf: WriteableBuffer, nbytes: int = 0
    ) -> tuple[int, Any]:
        """Receive a datagram into a buffer; return its size and its sender's address."""
        fd = self._check_socket(sock)
        nbytes = nbytes or len(buf)  # type: ignore[arg-type]
        try:
            return sock.recvfrom_into(buf, nbytes)
        except _NOT_NOW:
            pass
        return await self._wait_for(  # type: ignore[no-any-return]
            sock, fd, False, "recvfrom_into", buf, nbytes
        )

    async def sock_sendto(self, sock: socket.socket, data: ReadableBuffer, address: Any) -> int:
        """Send a datagram to an address; returns the number of bytes."""
        fd = self._check_socket(sock)
        try:
            return sock.sendto(data, address)
        except _NOT_NOW:
            pass
        return await self._wait_for(sock, fd, True, "sendto", data, address)  # type: ignore[no-any-return]

    async def sock_sendall(self, sock: socket.socket, data: ReadableBuffer) -> None:
        """Send all data to the socket."""
        fd = self._check_socket(sock)
        try:
            sent = sock.send(data)
        except _NOT_NOW:
            sent = 0
        view = memoryview(data)
        if sent == view.nbytes:
            return
        self._check_no_transport(fd)
        operation = _native.SockOperation.send_all(self, sock, fd, view.cast("B"), sent)
        try:
            await operation.future
        finally:
            operation.finish()

    async def sock_accept(self, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection; the new socket is non-blocking."""
        fd = self._check_socket(sock)
        try:
            accepted = sock.accept()
        except (*_NOT_NOW, ConnectionAbortedError):
            accepted = await self._wait_for(sock, fd, False, "accept")
        connection, address = accepted
        connection.setblocking(False)
        return connection, address
