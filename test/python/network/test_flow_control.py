"""Write flow control: is a fast writer paused by a slow reader?"""

from __future__ import annotations

import asyncio
import math
import os
import resource

import pytest
from connections import Recorder, connected


async def test_pause_and_resume_writing(loop):
    async with connected() as (server, client):
        server.transport.pause_reading()
        written = 0
        while not client.paused.is_set():
            client.transport.write(bytes(65_536))
            written += 65_536
        assert client.transport.get_write_buffer_size() > 64 * 1024
        assert client.events == ["made", "pause"]
        server.transport.resume_reading()
        await client.resumed.wait()
        assert client.transport.get_write_buffer_size() <= 16 * 1024
        await server.received(written)
        assert client.events == ["made", "pause", "resume"]


async def test_limits(loop):
    async with connected() as (_, client):
        transport = client.transport
        assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        transport.set_write_buffer_limits(high=1000)
        assert transport.get_write_buffer_limits() == (250, 1000)
        transport.set_write_buffer_limits(low=1000)
        assert transport.get_write_buffer_limits() == (1000, 4000)
        transport.set_write_buffer_limits(high=10, low=10)
        transport.set_write_buffer_limits(high=4096.0)
        assert transport.get_write_buffer_limits() == (1024, 4096)
        for endless in (math.inf, 2**70):
            transport.set_write_buffer_limits(high=endless, low=0)
            assert transport.get_write_buffer_limits()[1] >= 2**62
        with pytest.raises(TypeError):
            transport.set_write_buffer_limits(high="much")
        with pytest.raises(ValueError):
            transport.set_write_buffer_limits(high=1, low=2)
        with pytest.raises(ValueError):
            transport.set_write_buffer_limits(high=-1)


async def test_high_limit_of_zero(loop):
    """drain() then waits for the socket to have taken everything."""
    async with connected() as (server, client):
        client.transport.set_write_buffer_limits(high=0)
        server.transport.pause_reading()
        while not client.paused.is_set():
            client.transport.write(bytes(100_000))
        server.transport.resume_reading()
        await client.resumed.wait()
        assert client.transport.get_write_buffer_size() == 0


async def test_200_mb_to_a_slow_reader(loop):
    """With drain() the memory stays bounded, however slow the reader."""
    total = 200_000_000
    piece = os.urandom(1_000_000)
    finished = loop.create_future()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = 0
        while data := await reader.read(1_000_000):
            received += len(data)
            if received % 10 == 0:
                await asyncio.sleep(0)
        writer.close()
        finished.set_result(received)

    server = await asyncio.start_server(slow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most = 0
    for _ in range(total // len(piece)):
        writer.write(piece)
        most = max(most, writer.transport.get_write_buffer_size())
        await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await finished == total
    assert most <= len(piece) + 64 * 1024
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000, f"{grown} KiB"
    server.close()
    await server.wait_closed()


async def test_writing_in_resume_writing(loop):
    """A protocol that writes whenever it may."""
    left = 200

    class Pump(Recorder):
        def resume_writing(self) -> None:
            super().resume_writing()
            self.pump()

        def pump(self) -> None:
            nonlocal left
            while left and not self.paused.is_set():
                left -= 1
                self.transport.write(bytes(50_000))
            if not left:
                loop.call_soon(self.transport.close)

    async with connected(client_factory=Pump) as (server, client):
        client.pump()
        assert await client.lost is None
        assert len(await server.received(200 * 50_000)) == 200 * 50_000
        assert await server.lost is None


async def test_drain_raises_when_the_peer_is_gone(loop):
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises(ConnectionError):
        while True:
            writer.write(bytes(100_000))
            await writer.drain()
    writer.close()
    with pytest.raises(ConnectionError):
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_writer_is_paused_while_the_reader_does_not_read(loop):
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(100):
                writer.write(bytes(100_000))
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    received = 0
    while data := await reader.read(500):
        assert len(reader._buffer) <= 2 * 1000 + 256 * 1024
        received += len(data)
    assert received == 100 * 100_000
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
