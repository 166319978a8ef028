"""sendfile: files straight to sockets, with the fallback where the system cannot."""

from __future__ import annotations

import asyncio
import io
import os
import socket

import pytest
from connections import connected, eventually, is_readable

SIZE = 3_000_000


@pytest.fixture
def content(tmp_path):
    data = os.urandom(SIZE)
    (tmp_path / "file").write_bytes(data)
    return data


async def test_transport(loop, tmp_path, content):
    async with connected() as (server, client):
        client.transport.write(b"before ")
        with (tmp_path / "file").open("rb") as file:
            assert await loop.sendfile(client.transport, file) == SIZE
            assert file.tell() == SIZE
        client.transport.write(b" after")
        data = await server.received(SIZE + 13)
        assert data == b"before " + content + b" after"


async def test_part_of_a_file(loop, tmp_path, content):
    async with connected() as (server, client):
        with (tmp_path / "file").open("rb") as file:
            assert await loop.sendfile(client.transport, file, 1000, 5000) == 5000
        assert await server.received(5000) == content[1000:6000]


async def test_waits_for_what_was_written(loop, tmp_path, content):
    """The file does not overtake data that waits for a slow reader."""
    async with connected() as (server, client):
        server.transport.pause_reading()
        before = os.urandom(5_000_000)
        client.transport.write(before)
        with (tmp_path / "file").open("rb") as file:
            sending = asyncio.ensure_future(loop.sendfile(client.transport, file))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError):
                client.transport.write(b"not while sendfile is in progress")
            server.transport.resume_reading()
            assert await sending == SIZE
        assert await server.received(len(before) + SIZE) == before + content


async def test_not_a_real_file(loop, content):
    async with connected() as (server, client):
        assert await loop.sendfile(client.transport, io.BytesIO(content)) == SIZE
        assert await server.received(SIZE) == content
        with pytest.raises(RuntimeError):
            await loop.sendfile(client.transport, io.BytesIO(content), fallback=False)


async def test_over_tls(loop, tmp_path, content, certificates):
    finished = loop.create_future()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        finished.set_result(await reader.read())
        writer.close()

    server = await asyncio.start_server(receive, "127.0.0.1", 0, ssl=certificates.server)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("localhost", port, ssl=certificates.client)
    with (tmp_path / "file").open("rb") as file:
        assert await loop.sendfile(writer.transport, file) == SIZE
    writer.close()
    await writer.wait_closed()
    assert await finished == content
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("fallback", [True, False])
async def test_own_socket(loop, tmp_path, content, fallback):
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        with (tmp_path / "file").open("rb") as file:
            sending = asyncio.ensure_future(loop.sock_sendfile(near, file, fallback=fallback))
            received = bytearray()
            while len(received) < SIZE:
                received += await loop.sock_recv(far, 100_000)
            assert await sending == SIZE
        assert received == content


async def test_peer_leaves(loop, tmp_path):
    """In the middle of a file that is larger than what the sockets hold."""
    async with connected() as (server, client):
        server.transport.pause_reading()
        with (tmp_path / "large").open("wb+") as file:
            file.truncate(100_000_000)
            sending = asyncio.ensure_future(loop.sendfile(client.transport, file))
            await eventually(lambda: is_readable(server.transport.get_extra_info("socket")))
            server.transport.abort()
            with pytest.raises(ConnectionError):
                await sending


async def test_empty_file(loop, tmp_path):
    (tmp_path / "empty").touch()
    async with connected() as (_, client):
        with (tmp_path / "empty").open("rb") as file:
            assert await loop.sendfile(client.transport, file) == 0
