"""Does memory stay small with a large upload, and with thousands of idle connections?"""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path

import pytest
from serving_apps import about, get, respond, server_of, serving

pytestmark = pytest.mark.ours

GIGABYTE = 1 << 30
PIECE = bytes(1 << 20)
CONNECTIONS = 10_000
#: Each is two descriptors of this process.
DESCRIPTORS = 2 * CONNECTIONS + 500


def memory() -> int:
    """Bytes that this process has for itself."""
    fields = Path("/proc/self/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * resource.getpagesize()


async def test_an_upload_of_a_gigabyte(loop):
    largest = 0

    async def app(scope, receive, send):
        nonlocal largest
        size = 0
        more = True
        while more:
            message = await receive()
            before = size
            size += len(message["body"])
            more = message["more_body"]
            # Now and then: it reads a file.
            if before >> 24 != size >> 24:
                largest = max(largest, memory())
        await respond(send, b"%d" % size)

    def upload(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % GIGABYTE)
            for _ in range(GIGABYTE // len(PIECE)):
                client.sendall(PIECE)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while part := client.recv(65536):
                answer += part
            return answer

    async with serving(app, lifespan="off") as address:
        start = memory()
        answer = await asyncio.to_thread(upload, address)
    assert answer.endswith(b"\r\n\r\n%d" % GIGABYTE)
    assert largest - start < 32 << 20


async def test_idle_connections(loop):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = CONNECTIONS
    try:
        wanted = (max(limits[0], DESCRIPTORS), max(limits[1], DESCRIPTORS))
        resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
    except (ValueError, PermissionError):
        # As many as this user may have.
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        count = (limits[1] - 500) // 2
    clients: list[socket.socket] = []
    request = get(close=False)

    def ask(client: socket.socket) -> None:
        client.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 ")

    def connect(address: tuple[str, int]) -> None:
        for _ in range(count):
            clients.append(socket.create_connection(address))
            ask(clients[-1])

    try:
        async with server_of(about, lifespan="off", timeout_keep_alive=600) as (server, address):
            await asyncio.to_thread(connect, address)
            assert server.counts()["connections"] == count
            for client in clients[:: count // 100]:
                await asyncio.to_thread(ask, client)
            # All are closed at once.
            assert await server.drain(30)
            assert server.counts()["connections"] == 0
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
