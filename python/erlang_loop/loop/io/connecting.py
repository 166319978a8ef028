"""loop.create_connection and sock_connect for addresses that need no name lookup.

(bench: client_connect)
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import socket
from asyncio import base_events
from collections.abc import Callable
from typing import Any

from ... import _native, compat
from .socket_methods import SocketMethods

_SOCKET = socket.socket

#: Including the names it imports, which type checkers hide.
_ASYNCIO: Any = base_events

#: The address families that may need a lookup.
_LENGTHS = {socket.AF_INET: 2, socket.AF_INET6: 4}

_LAST_PORT = 65_535

#: asyncio also continues to wait after these.
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN, errno.EINTR)


class Connecting(SocketMethods):
    """The part of ErlangEventLoop that connects sockets."""

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> Any:
        """Connect to a TCP server. Falls back to asyncio's method for all but simple cases."""
        # A program may have replaced asyncio's socket module: then use it.
        if options or _ASYNCIO.socket is not socket:
            return await super().create_connection(protocol_factory, host, port, **options)
        context = compat.connection_context()
        begun = _native.connect(self, protocol_factory, host, port, context)
        if begun is None:
            return await super().create_connection(protocol_factory, host, port)
        if type(begun) is not tuple:
            rest = () if begun.family == socket.AF_INET else (0, 0)
            address = (host, port, *rest)
            begun = await self._finish_connecting(begun, address, protocol_factory, context)
        transport, protocol, waiter = begun
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        if self._debug:
            # The same text as asyncio's.
            shown = transport.get_extra_info("socket")
            text = "%r connected to %s:%r: (%r, %r)"
            _ASYNCIO.logger.debug(text, shown, host, port, transport, protocol)
        return transport, protocol

    async def _finish_connecting(
        self,
        sock: socket.socket,
        address: Any,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        context: contextvars.Context | None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol, asyncio.Future[None]]:
        """Wait for the connection, then create the transport."""
        try:
            await self._wait_for_connection(sock, sock.fileno(), address)
            protocol = protocol_factory()
        except BaseException:
            sock.close()
            raise
        waiter = self.create_future()
        transport = self._make_socket_transport(sock, protocol, waiter, context=context)
        return transport, protocol, waiter

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket."""
        # A subclass may connect in its own way: through a proxy, or in a test.
        if type(sock) is not _SOCKET or not _is_known(sock, address):
            await super().sock_connect(sock, address)
            return
        fd = self._check_socket(sock)
        if self._try_to_connect(sock, address) in _UNDER_WAY:
            await self._wait_for_connection(sock, fd, address)

    def _try_to_connect(self, sock: socket.socket, address: Any) -> int:
        """Return the error number if connecting may still succeed, else 0."""
        error = sock.connect_ex(address)
        if error == errno.EINPROGRESS and _has_peer(sock):
            # A connection on the same machine is established by now: a second call is
            # cheaper than waiting.
            return 0
        if error == 0 or error in _UNDER_WAY:
            return error
        raise OSError(error, os.strerror(error))

    async def _wait_for_connection(self, sock: socket.socket, fd: int, address: Any) -> None:
        option = (socket.SOL_SOCKET, socket.SO_ERROR)
        error = await self._wait_for(sock, fd, True, "getsockopt", *option)
        if error:
            raise OSError(error, f"Connect call failed {address}")


def _has_peer(sock: socket.socket) -> bool:
    """Whether it is connected. To ask by connecting again would tell, too, but is noticed: the
    next one who connects it, who may do so once on Linux, is then refused."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _is_known(sock: socket.socket, address: Any) -> bool:
    """Whether nothing has to be looked up to connect to this.

    An address as sockets themselves take and show it. asyncio takes others, too: a port as text,
    a list, what comes after the port left out.
    """
    length = _LENGTHS.get(sock.family)
    if length is None:
        return True
    if type(address) is not tuple or len(address) != length:
        return False
    host, port = address[:2]
    is_plain = type(host) is str and type(port) is int and 0 <= port <= _LAST_PORT
    return is_plain and _native.ip_family(host) == sock.family
