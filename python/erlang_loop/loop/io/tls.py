"""TLS connections: asyncio's own protocol, with a native path for their data (bench: tls)."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Iterable
from typing import Any

from ... import _native

#: The size of `_ssl_buffer` when it is used; the same as in asyncio.
_BUFFER_SIZE = 256 * 1024


class ErlangSSLTransport(_native.TlsWriter, sslproto._SSLProtocolTransport):
    """The transport that an application writes to."""

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Join the data first, so that it goes into as few records as possible."""
        pieces = list(list_of_data)
        try:
            data = b"".join(pieces)
        except TypeError:
            # Not bytes: that ends the connection.
            data = b""
        if data:
            self.write(data)
        else:
            super().writelines(pieces)


class TlsProtocol(_native.TlsPath, sslproto.SSLProtocol):
    """Between a transport of the loop and an application's protocol.

    Handshake, shutdown, errors and limits are asyncio's own. `_do_read`, `_process_outgoing` and
    `ErlangSSLTransport.write` are native.
    """

    # Native transports deliver data without this buffer, so it is created only when it is used: by
    # TLS inside TLS.
    max_size = 0

    _sslobj: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The object that SSLObject delegates to, if it is not overridden.
        plain = type(self._sslobj) is ssl.SSLObject
        self._tls = self._sslobj._sslobj if plain else self._sslobj

    def _get_app_transport(self) -> Any:
        if self._app_transport is None:
            if self._app_transport_created:
                raise RuntimeError("Creating _SSLProtocolTransport twice")
            self._app_transport = ErlangSSLTransport(self._loop, self)
            self._app_transport_created = True
        return self._app_transport

    def get_buffer(self, n: int) -> memoryview:
        vars(self)["max_size"] = _BUFFER_SIZE
        return super().get_buffer(n)


async def start(
    loop: asyncio.AbstractEventLoop,
    transport: Any,
    protocol: asyncio.BaseProtocol,
    sslcontext: ssl.SSLContext,
    **options: Any,
) -> Any:
    """Like `start_tls` of asyncio's loop, with our protocol."""
    if not isinstance(sslcontext, ssl.SSLContext):
        text = f"sslcontext is expected to be an instance of ssl.SSLContext, got {sslcontext!r}"
        raise TypeError(text)
    if not getattr(transport, "_start_tls_compatible", False):
        raise TypeError(f"transport {transport!r} is not supported by start_tls()")
    waiter: asyncio.Future[None] | None = loop.create_future()
    made: Any = TlsProtocol(
        loop, protocol, sslcontext, waiter, call_connection_made=False, **options
    )
    # No data may be received before the new protocol knows its transport.
    transport.pause_reading()
    if options.get("server_side"):
        _take_over_buffered(protocol, made)
    transport.set_protocol(made)
    steps = [
        loop.call_soon(made.connection_made, transport),
        loop.call_soon(transport.resume_reading),
    ]
    try:
        await waiter  # type: ignore[misc]
    except BaseException:
        transport.close()
        for step in steps:
            step.cancel()
        # The future refers to the exception, which refers to this frame: break the cycle.
        waiter = None
        raise
    return made._app_transport


def _take_over_buffered(protocol: asyncio.BaseProtocol, made: Any) -> None:
    """A fast client has already begun its handshake: its data is in the stream's reader."""
    reader = getattr(protocol, "_stream_reader", None)
    if isinstance(protocol, asyncio.StreamReaderProtocol) and reader is not None:
        made._incoming.write(reader._buffer)
        reader._buffer.clear()
