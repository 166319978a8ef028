"""asyncio's attributes of a TLS connection, which are native fields: do they behave like any?"""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
import weakref
from asyncio import sslproto
from typing import Any

import pytest
from erlang_loop.tls import TlsProtocol

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="before Python 3.11 asyncio's TLS works otherwise"
)


def unconnected(loop: asyncio.AbstractEventLoop, application: Any) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    protocol: Any = TlsProtocol(loop, application, context, None, server_hostname="localhost")
    # There is nothing to shut down, so nobody is to be warned.
    protocol._app_transport._closed = True
    return protocol


class Application(asyncio.Protocol):
    connection: Any = None


async def test_asyncio_and_we_see_the_same(loop):
    application = asyncio.Protocol()
    protocol = unconnected(loop, application)
    assert protocol._state is sslproto.SSLProtocolState.UNWRAPPED
    assert protocol._app_protocol is application
    assert isinstance(protocol._incoming, ssl.MemoryBIO)
    assert not protocol._write_backlog
    assert protocol._transport is None
    assert protocol._app_protocol_is_buffer is False
    protocol._set_app_protocol(asyncio.BufferedProtocol())
    assert protocol._app_protocol_is_buffer is True
    assert protocol._outgoing_high_water > 0


async def test_what_is_no_number_of_bytes_is_refused(loop):
    protocol = unconnected(loop, asyncio.Protocol())
    transport = protocol._app_transport
    before = transport.get_write_buffer_limits()
    with pytest.raises(OverflowError):
        transport.set_write_buffer_limits(high=2**80)
    with pytest.raises(TypeError):
        transport.set_write_buffer_limits(high=1.5)
    assert transport.get_write_buffer_limits() == before


def test_unset_before_init():
    protocol: Any = TlsProtocol.__new__(TlsProtocol)
    with pytest.raises(AttributeError, match="not initialised"):
        _ = protocol._state


async def test_the_collector_sees_them(loop):
    """An application that has its connection, and nobody has either: both go."""
    application = Application()
    protocol = unconnected(loop, application)
    application.connection = protocol
    gone = weakref.ref(application)
    del application, protocol
    gc.collect()
    assert gone() is None
