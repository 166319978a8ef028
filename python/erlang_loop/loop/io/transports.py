"""Native transports: the loop's methods that create them, and the classes they appear as."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import ssl
from asyncio import constants, transports, trsock
from asyncio.log import logger
from collections.abc import Callable
from typing import Any

from ... import _native, compat
from ..asyncio_private import AsyncioLoop
from . import own_sockets, tls


class TransportMethods(AsyncioLoop):
    """The part of ErlangEventLoop that connects protocols with sockets and pipes."""

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        *,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Transport:
        if self._transport_of(sock.fileno()) is not None:
            self._ensure_fd_no_transport(sock)
        if own_sockets.has_own_methods(sock):
            options = compat.context_option(context)
            return super()._make_socket_transport(
                sock, protocol, waiter, extra=extra, server=server, **options
            )
        return _native.StreamTransport(self, sock, protocol, waiter, extra, server, context)

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext,
        waiter: asyncio.Future[None] | None = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        context: contextvars.Context | None = None,
        **timeouts: Any,
    ) -> asyncio.Transport:
        self._ensure_fd_no_transport(rawsock)
        connection = tls.TlsProtocol(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            **timeouts,
        )
        self._make_socket_transport(
            rawsock, connection, extra=extra, server=server, context=context
        )
        return connection._app_transport

    async def start_tls(
        self,
        transport: Any,
        protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext,
        **options: Any,
    ) -> Any:
        """Switch a connection to TLS; return the application's new transport."""
        return await tls.start(self, transport, protocol, sslcontext, **options)

    def _make_datagram_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.DatagramProtocol,
        address: Any = None,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> asyncio.DatagramTransport:
        self._ensure_fd_no_transport(sock)
        if own_sockets.has_own_methods(sock):
            return super()._make_datagram_transport(sock, protocol, address, waiter, extra)
        return _native.DatagramTransport(self, sock, protocol, address, waiter, extra)

    def _make_read_pipe_transport(
        self,
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> _native.ReadPipeTransport:
        return _native.ReadPipeTransport(self, pipe, protocol, waiter, extra)

    def _make_write_pipe_transport(
        self,
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> _native.WritePipeTransport:
        return _native.WritePipeTransport(self, pipe, protocol, waiter, extra)

    def _start_serving(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        sock: socket.socket,
        sslcontext: ssl.SSLContext | None = None,
        server: Any = None,
        backlog: int = 100,
        *timeouts: float | None,
        context: contextvars.Context | None = None,
        **named_timeouts: float | None,
    ) -> None:
        if sslcontext is not None:
            options = {**named_timeouts, **compat.context_option(context)}
            super()._start_serving(
                protocol_factory, sock, sslcontext, server, backlog, *timeouts, **options
            )
            return
        acceptor = _native.Acceptor(self, protocol_factory, sock, server, backlog, context)
        self._add_reader(sock.fileno(), acceptor)

    # Called by native transports.

    def _accept_later(self, acceptor: _native.Acceptor, error: OSError) -> None:
        """No fd or memory is left for a new connection: report it and retry later."""
        self.call_exception_handler(
            {
                "message": "socket.accept() out of system resource",
                "exception": error,
                "socket": trsock.TransportSocket(acceptor.sock),
            }
        )
        self._remove_reader(acceptor.sock.fileno())
        self.call_later(constants.ACCEPT_RETRY_DELAY, self._accept_again, acceptor)

    def _accept_again(self, acceptor: _native.Acceptor) -> None:
        # The server may have been closed meanwhile.
        if acceptor.sock.fileno() >= 0:
            self._add_reader(acceptor.sock.fileno(), acceptor)

    def _transport_failed(
        self, transport: _native.Transport, error: BaseException, message: str, expected: bool
    ) -> None:
        """A transport is about to be closed because of an error.

        Network errors are expected: they are reported only in debug mode.
        """
        if expected:
            logger.debug("%r: %s", transport, message, exc_info=error)
            return
        self.call_exception_handler(
            {
                "message": message,
                "exception": error,
                "transport": transport,
                "protocol": transport.get_protocol(),
            }
        )


# For `isinstance`. These classes are never instantiated: a native transport returns one as its
# `__class__`, because it cannot inherit from asyncio's own (their memory layouts conflict).


class _ErlangSocketTransport(transports._FlowControlMixin, transports.Transport):
    """A stream over a socket (`_native.StreamTransport`)."""


class _ErlangDatagramTransport(transports._FlowControlMixin, transports.DatagramTransport):
    """Datagrams over a socket (`_native.DatagramTransport`)."""


class _ErlangReadPipeTransport(transports.ReadTransport):
    """The read end of a pipe (`_native.ReadPipeTransport`)."""


class _ErlangWritePipeTransport(transports._FlowControlMixin, transports.WriteTransport):
    """The write end of a pipe (`_native.WritePipeTransport`)."""
