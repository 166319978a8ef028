"""asyncio's streams: the same data, limits and ends, however the reader is fed."""

from __future__ import annotations

import asyncio
import socket

import pytest
from connections import eventually, is_readable


@pytest.fixture
def pair(loop):
    """A stream and the socket at its other end."""
    near, far = socket.socketpair()
    far.setblocking(False)

    async def connect():
        return await asyncio.open_connection(sock=near, limit=1000)

    reader, writer = loop.run_until_complete(connect())
    yield reader, writer, far
    far.close()
    writer.close()


async def test_pieces_come_in_order(loop, pair):
    reader, _, far = pair
    expected = b""
    for number in range(50):
        far.send(b"%d\n" % number)
        expected += b"%d\n" % number
        if number % 7 == 0:
            await asyncio.sleep(0)
    got = b""
    while len(got) < len(expected):
        got += await reader.read(13)
    assert got == expected


async def test_a_full_reader_pauses_its_transport(loop, pair):
    reader, writer, far = pair
    far.send(b"x" * 5000)
    while not reader._paused:
        await asyncio.sleep(0)
    assert not writer.transport.is_reading()
    assert await reader.readexactly(5000) == b"x" * 5000
    assert writer.transport.is_reading()


async def test_end(loop, pair):
    reader, _, far = pair
    waiting = asyncio.ensure_future(reader.readline())
    await asyncio.sleep(0)
    far.send(b"no newline")
    far.shutdown(socket.SHUT_WR)
    assert await waiting == b"no newline"
    assert reader.at_eof()


async def test_cancelled_reader_loses_nothing(loop, pair):
    reader, _, far = pair
    waiting = asyncio.ensure_future(reader.read(10))
    await asyncio.sleep(0)
    waiting.cancel()
    far.send(b"kept")
    await eventually(lambda: reader._buffer)
    assert waiting.cancelled()
    assert await reader.read(10) == b"kept"


async def test_own_classes_are_called(loop):
    fed = []

    class Reader(asyncio.StreamReader):
        def feed_data(self, data: bytes) -> None:
            fed.append(data)
            super().feed_data(data)

    near, far = socket.socketpair()
    reader = Reader()
    transport, _ = await loop.create_connection(
        lambda: asyncio.StreamReaderProtocol(reader), sock=near
    )
    far.send(b"data")
    assert await reader.read(10) == b"data"
    assert fed == [b"data"]
    far.close()
    transport.close()


async def test_replaced_method_is_called(loop, monkeypatch):
    fed = []
    original = asyncio.StreamReader.feed_data

    def feed_data(self, data):
        fed.append(data)
        original(self, data)

    monkeypatch.setattr(asyncio.StreamReader, "feed_data", feed_data)
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    far.send(b"data")
    assert await reader.read(10) == b"data"
    assert fed == [b"data"]
    far.close()
    writer.close()


async def test_reader_that_is_gone(loop, unhandled):
    """A protocol does not keep its reader; what comes then is dropped."""
    near, far = socket.socketpair()
    transport, protocol = await loop.create_connection(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sock=near
    )
    far.send(b"data")
    await eventually(lambda: not is_readable(near))
    assert protocol._stream_reader is None
    far.close()
    transport.close()
