"""Half-closed connections: one side has sent everything, the other still sends."""

from __future__ import annotations

import asyncio
import os
import select
import socket

import pytest
from connections import HalfOpen, Recorder, connected, eventually


async def test_write_eof_then_read_the_response(loop):
    async with connected(server_factory=HalfOpen) as (server, client):
        client.transport.write(b"question")
        assert client.transport.can_write_eof()
        client.transport.write_eof()
        await server.eof
        assert server.data == b"question"
        server.transport.write(b"answer")
        assert await client.received(6) == b"answer"
        server.transport.close()
        assert await client.lost is None
        assert server.events == ["made", "data", "eof", "lost"] or await server.lost is None


async def test_eof_closes_by_default(loop):
    async with connected() as (server, client):
        client.transport.write_eof()
        assert await server.lost is None
        assert server.events == ["made", "eof", "lost"]
        assert await client.lost is None


async def test_eof_waits_for_the_data_before_it(loop):
    async with connected(server_factory=HalfOpen) as (server, client):
        server.transport.pause_reading()
        data = os.urandom(5_000_000)
        client.transport.write(data)
        client.transport.write_eof()
        server.transport.resume_reading()
        await server.eof
        assert server.data == data


async def test_write_after_eof(loop):
    async with connected(server_factory=HalfOpen) as (server, client):
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")
        with pytest.raises(RuntimeError):
            client.transport.writelines([b"more"])
        client.transport.write_eof()  # A second time does nothing.
        await server.eof


async def test_eof_after_writes_that_fail(loop):
    """They end the connection; the end of writing has nothing to add."""
    async with connected() as (server, client):
        client.transport.pause_reading()
        server.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0"
        )
        server.transport.abort()
        await server.lost
        client.transport.write(b"one")
        client.transport.write(b"two")
        client.transport.write_eof()
        assert isinstance(await client.lost, ConnectionError)


async def test_eof_of_streams(loop):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read()
        writer.write(question[::-1])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    question = os.urandom(1_000_000)
    writer.write(question)
    writer.write_eof()
    assert await reader.read() == question[::-1]
    assert reader.at_eof()
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_half_open_does_not_spin(loop):
    """After the peer's end of file the fd is readable forever; the loop must not care."""
    async with connected(server_factory=HalfOpen, client_factory=Recorder) as (server, client):
        client.transport.write_eof()
        await server.eof
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1

        before = os.times()
        await asyncio.sleep(0.3)  # Time to spin in.
        after = os.times()
        used = after.user + after.system - before.user - before.system
        assert used < 0.2
        server.transport.write(b"still here")
        assert await client.received(10) == b"still here"


async def test_eof_while_reading_is_paused(loop):
    """It is seen when reading goes on, after the data before it."""
    async with connected() as (server, client):
        server.transport.pause_reading()
        client.transport.write(b"last words")
        client.transport.close()
        await client.lost
        ended = select.poll()
        ended.register(server.transport.get_extra_info("socket"), select.POLLRDHUP)
        await eventually(lambda: ended.poll(0))  # The end of file is there, too.
        assert server.events == ["made"]
        server.transport.resume_reading()
        assert await server.lost is None
        assert server.data == b"last words"
        assert server.events == ["made", "data", "eof", "lost"]
