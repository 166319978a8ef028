"""Servers: start, close, wait_closed, serve_forever, many addresses, many connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

import pytest
from connections import Recorder, echo, eventually

NEW_WAIT = pytest.mark.skipif(sys.version_info < (3, 12), reason="waits for clients from 3.12 on")
NEW_CLOSE = pytest.mark.skipif(sys.version_info < (3, 13), reason="closes clients from 3.13 on")


async def test_close_refuses_new_connections(loop):
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    assert server.is_serving()
    server.close()
    assert not server.is_serving()
    assert server.sockets == ()
    await server.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


async def test_established_connections_live_on(loop):
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    server.close()
    writer.write(b"after")
    assert await reader.readexactly(5) == b"after"
    writer.close()
    await writer.wait_closed()


@NEW_WAIT
async def test_wait_closed_waits_for_connections(loop):
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"x")
    await reader.readexactly(1)
    server.close()
    closed = asyncio.ensure_future(server.wait_closed())
    await asyncio.sleep(0.01)  # Long enough for its end, were it to come.
    assert not closed.done()
    writer.close()
    await closed


@NEW_CLOSE
@pytest.mark.parametrize("method", ["close_clients", "abort_clients"])
async def test_close_clients(loop, method):
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    clients = []
    for _ in range(5):
        clients.append(
            (await loop.create_connection(Recorder, *server.sockets[0].getsockname()))[1]
        )
    await eventually(lambda: len(server._clients) == 5)
    server.close()
    getattr(server, method)()
    await server.wait_closed()
    for client in clients:
        await client.lost


async def test_serve_forever(loop):
    server = await loop.create_server(Recorder, "127.0.0.1", 0, start_serving=False)
    assert not server.is_serving()
    serving = asyncio.ensure_future(server.serve_forever())
    await asyncio.sleep(0)
    assert server.is_serving()
    with pytest.raises(RuntimeError):
        await server.serve_forever()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not server.is_serving()


async def test_async_with(loop):
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        assert server.get_loop() is loop
        assert server.is_serving()
    assert not server.is_serving()


async def test_several_addresses(loop):
    server = await asyncio.start_server(echo, ["127.0.0.1", "127.0.0.2", "::1"], 0)
    addresses = sorted(sock.getsockname()[:2] for sock in server.sockets)
    assert [host for host, _ in addresses] == ["127.0.0.1", "127.0.0.2", "::1"]
    for address in addresses:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_address_in_use(loop):
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(OSError, match="address already in use"):
        await loop.create_server(Recorder, "127.0.0.1", port)
    server.close()
    await server.wait_closed()


async def test_reuse_port(loop):
    first = await loop.create_server(Recorder, "127.0.0.1", 0, reuse_port=True)
    port = first.sockets[0].getsockname()[1]
    second = await loop.create_server(Recorder, "127.0.0.1", port, reuse_port=True)
    for server in (first, second):
        server.close()
        await server.wait_closed()


async def test_two_servers_on_one_listener(loop):
    """As prefork servers do it: an accept that finds nothing is no error."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    first = await asyncio.start_server(echo, sock=listener.dup())
    second = await asyncio.start_server(echo, sock=listener)
    for _ in range(20):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.close()
        await writer.wait_closed()
    for server in (first, second):
        server.close()
        await server.wait_closed()


async def test_client_that_leaves_before_it_is_accepted(loop):
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    for _ in range(50):
        sock = socket.create_connection(address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        sock.close()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_close_in_a_callback(loop):
    """A connection's protocol closes the server it came from."""
    server = None

    class Closing(Recorder):
        def data_received(self, data):
            server.close()
            self.transport.close()

    server = await loop.create_server(Closing, "127.0.0.1", 0)
    _, client = await loop.create_connection(Recorder, *server.sockets[0].getsockname())
    client.transport.write(b"close")
    await client.lost
    await server.wait_closed()


@pytest.mark.ours
async def test_close_in_the_protocol_factory(loop):
    """Three connections wait, and the first one's factory closes the server. It used to accept the
    second from a socket that was closed, and to take off the server a connection it never had.

    asyncio leaves such connections to the collector."""
    listener = socket.create_server(("127.0.0.1", 0))
    clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
    made = []

    def close_and_make():
        server.close()
        made.append(Recorder())
        return made[-1]

    server = await loop.create_server(close_and_make, sock=listener)
    for client in clients:
        client.setblocking(False)
        with contextlib.suppress(ConnectionResetError):
            assert await loop.sock_recv(client, 1) == b""
        client.close()
    assert len(made) == 1
    await server.wait_closed()


async def test_negative_backlog(loop):
    """As many as the system lets wait; it was an OverflowError."""
    server = await loop.create_server(Recorder, "127.0.0.1", 0, backlog=-1)
    assert server.is_serving()
    server.close()
    await server.wait_closed()
