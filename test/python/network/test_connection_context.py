"""In which context (`contextvars`) do a protocol's methods run?"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys
from typing import Any

import pytest

ONE_CONTEXT = pytest.mark.skipif(
    sys.version_info < (3, 15), reason="a connection has one context from 3.15 on"
)

CALLED: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("CALLED", default=())


class Recorder(asyncio.Protocol):
    """Each method adds its name to what the context has of earlier methods."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.received, self.lost = loop.create_future(), loop.create_future()

    def add(self, name: str) -> None:
        CALLED.set((*CALLED.get(), name))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.add("made")

    def data_received(self, data: bytes) -> None:
        self.add("data")
        self.received.set_result(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.add("lost")
        self.lost.set_result(CALLED.get())


async def through(server_tls: Any = None, client_tls: Any = None) -> list[tuple[str, ...]]:
    """What the methods of a server's and of a client's protocol saw."""
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()

    def accept() -> Recorder:
        accepted.set_result(Recorder())
        return accepted.result()

    server = await loop.create_server(accept, "127.0.0.1", 0, ssl=server_tls)
    transport, client = await loop.create_connection(
        Recorder,
        *server.sockets[0].getsockname(),
        ssl=client_tls,
        server_hostname="localhost" if client_tls else None,
    )
    transport.write(b"hello")
    served = await accepted
    await served.received
    transport.close()
    seen = [await served.lost, await client.lost]
    server.close()
    return seen


@ONE_CONTEXT
async def test_a_connection_has_one_context(loop):
    assert await through() == [("made", "data", "lost"), ("made", "lost")]
    assert CALLED.get() == ()


@ONE_CONTEXT
async def test_a_tls_connection_has_one_context(loop, certificates):
    seen = await through(certificates.server, certificates.client)
    assert seen == [("made", "data", "lost"), ("made", "lost")]


@pytest.mark.ours
async def test_a_transport_runs_in_the_context_it_is_passed(loop):
    """As asyncio of Python 3.15 passes it."""
    context = contextvars.Context()
    ours, theirs = socket.socketpair()
    protocol = Recorder()
    loop._make_socket_transport(ours, protocol, context=context)
    with theirs:
        theirs.send(b"hello")
        await protocol.received
    assert await protocol.lost == ("made", "data", "lost")
    assert context[CALLED] == ("made", "data", "lost")
    assert CALLED.get() == ()


@pytest.mark.ours
async def test_an_fd_is_watched_in_the_context_it_is_passed(loop):
    context = contextvars.Context()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        called = loop.create_future()

        def ready() -> None:
            loop._remove_reader(ours)
            CALLED.set(("ready",))
            called.set_result(None)

        loop._add_reader(ours, ready, context=context)
        theirs.send(b"hello")
        await called
    assert context[CALLED] == ("ready",)
