"""websockets: server and client, also over TLS."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosedOK

pytestmark = pytest.mark.ours


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def test_echo_over_tls(loop, certificates):
    async with serve(echo, "localhost", 0, ssl=certificates.server) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"wss://localhost:{port}", ssl=certificates.client) as client:
            for size in (0, 1, 125, 126, 65_535, 65_536, 1_000_000):
                await client.send(bytes(size))
                assert await client.recv() == bytes(size)


async def test_many_clients(loop):
    async def talk(port: int, number: int) -> None:
        async with connect(f"ws://127.0.0.1:{port}") as client:
            for message in range(20):
                await client.send(f"{number} {message}")
                assert await client.recv() == f"{number} {message}"

    async with serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(talk(port, number) for number in range(50)))


async def test_broadcast(loop):
    async with serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        clients = [await connect(f"ws://127.0.0.1:{port}") for _ in range(10)]
        broadcast(server.connections, "to all")
        assert [await client.recv() for client in clients] == ["to all"] * 10
        for client in clients:
            await client.close()


async def test_ping_and_close(loop):
    async with serve(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}") as client:
            assert await (await client.ping()) >= 0
            server.close()
            with pytest.raises(ConnectionClosedOK):
                await client.recv()
