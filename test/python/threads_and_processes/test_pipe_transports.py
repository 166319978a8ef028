"""Is a pipe's transport what asyncio's would be, where programs look at it?"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import socket
import struct

import pytest


class Silent(asyncio.Protocol):
    """Only notes how it ends."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.paused = 0

    def connection_lost(self, exc):
        self.ended.set_result(exc)

    def pause_writing(self):
        self.paused += 1


async def ends(loop, pair=None):
    """(transport, protocol) of the read end, and of the write end."""
    read, write = pair or os.pipe()
    reader = await loop.connect_read_pipe(Silent, os.fdopen(read, "rb", 0))
    writer = await loop.connect_write_pipe(Silent, os.fdopen(write, "wb", 0))
    return reader, writer


async def test_how_isinstance_sees_it(loop):
    (reader, one), (writer, other) = await ends(loop)
    assert isinstance(reader, asyncio.ReadTransport)
    assert not isinstance(reader, asyncio.WriteTransport)
    assert isinstance(writer, asyncio.WriteTransport)
    for name in ("write", "abort", "set_write_buffer_limits", "get_write_buffer_size"):
        assert hasattr(writer, name)
        assert not hasattr(reader, name)
    for method in (writer.is_reading, writer.pause_reading, writer.resume_reading):
        with pytest.raises(NotImplementedError):
            method()
    assert reader.get_extra_info("pipe").fileno() >= 0
    assert reader.get_extra_info("socket", "none") == "none"
    writer.close()
    await one.ended
    await other.ended


async def test_repr(loop):
    def shape(transport):
        return re.sub(r"fd=\d+", "fd=N", repr(transport).split(" ", 1)[1])

    (reader, one), (writer, other) = await ends(loop)
    await asyncio.sleep(0)
    assert shape(reader) == "fd=N polling>"
    assert shape(writer) == "fd=N idle bufsize=0>"
    reader.pause_reading()
    assert shape(reader) == "fd=N idle>"
    writer.write(bytes(1_000_000))
    assert re.fullmatch(r"fd=N polling bufsize=\d+>", shape(writer))
    reader.close()
    assert shape(reader) == "closing fd=N idle>"
    await one.ended
    assert isinstance(await other.ended, BrokenPipeError)
    assert shape(reader) == shape(writer) == "closed fd=N closed>"


async def test_refused_files(loop, tmp_path):
    path = tmp_path / "file"
    path.touch()
    with path.open("rb") as file, pytest.raises(ValueError, match=r"pipes/sockets only\."):
        await loop.connect_read_pipe(Silent, file)
    text = "only for pipes, sockets and character devices"
    with path.open("wb") as file, pytest.raises(ValueError, match=text):
        await loop.connect_write_pipe(Silent, file)


async def test_socket_as_pipe(loop):
    mine, theirs = socket.socketpair()
    _, protocol = await loop.connect_write_pipe(Silent, mine)
    theirs.close()
    assert await protocol.ended is None


async def test_writes_after_the_end_are_logged(loop, caplog):
    (_, one), (writer, other) = await ends(loop)
    writer.close()
    with caplog.at_level(logging.WARNING, "asyncio"):
        for _ in range(5):
            writer.write(b"late")
        assert caplog.messages == []
        writer.write(b"late")
    text = "pipe closed by peer or os.write(pipe, data) raised exception."
    assert caplog.messages == [text]
    await one.ended
    await other.ended


async def test_a_write_after_eof_does_not_delay_the_end(loop):
    (_, one), (writer, other) = await ends(loop)
    writer.write(bytes(1_000_000))
    assert other.paused == 1
    writer.write_eof()
    writer.write(b"late")
    assert await other.ended is None
    assert await one.ended is None


async def test_writing_what_is_not_bytes(loop):
    (_, one), (writer, other) = await ends(loop)
    for wrong in ("text", 5, [b"list"]):
        with pytest.raises(AssertionError, match=re.escape(repr(wrong))):
            writer.write(wrong)
    for right in (b"", bytearray(), memoryview(b""), bytearray(b"a"), memoryview(b"b")):
        writer.write(right)
    writer.writelines([b"c", bytearray(b"d")])
    writer.close()
    await one.ended
    await other.ended


async def test_failing_protocol_is_reported_and_goes_on(loop, unhandled):
    class Failing(Silent):
        seen = b""

        def data_received(self, data):
            self.seen += data
            if len(self.seen) < 2:
                raise ValueError("not enough")

    read, write = os.pipe()
    _, protocol = await loop.connect_read_pipe(Failing, os.fdopen(read, "rb", 0))
    os.write(write, b"1")
    while not unhandled:
        await asyncio.sleep(0)
    assert isinstance(unhandled.pop()["exception"], ValueError)
    os.write(write, b"2")
    os.close(write)
    assert await protocol.ended is None
    assert protocol.seen == b"12"


async def test_read_error_reaches_the_exception_handler(loop, unhandled):
    """Other than with socket transports, where the network is expected to fail."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        mine, _ = server.accept()
    transport, protocol = await loop.connect_read_pipe(Silent, mine)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    assert isinstance(await protocol.ended, ConnectionResetError)
    report = unhandled.pop()
    assert report["message"] == "Fatal read error on pipe transport"
    assert report["transport"] is transport


def test_forgotten_transport_warns(loop):
    read, write = os.pipe()

    async def connect():
        await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(read, "rb", 0))

    loop.run_until_complete(connect())
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        forget(loop)
    os.close(write)


def forget(loop):
    """The loop's watch was the last that knew of the transport."""
    loop.close()
    gc.collect()


async def test_data_of_a_new_pipe_comes_before_the_end_of_the_one_it_replaces(loop):
    """asyncio looks at the files in every turn, so what a new one has is there before what is
    called soon afterwards. Ours looked again after some microseconds only, and asyncssh saw
    the end of the old input first and took it for the end of the new one: its data was lost.
    """
    seen = []

    class Reader(asyncio.Protocol):
        def __init__(self, name: str) -> None:
            self.name = name

        def data_received(self, data: bytes) -> None:
            seen.append((self.name, data))

        def connection_lost(self, error: Exception | None) -> None:
            seen.append((self.name, "lost"))

    for _ in range(20):
        seen.clear()
        ends = [os.pipe(), os.pipe()]
        os.write(ends[1][1], b"data")
        old, _ = await loop.connect_read_pipe(lambda: Reader("old"), os.fdopen(ends[0][0], "rb", 0))
        new, _ = await loop.connect_read_pipe(lambda: Reader("new"), os.fdopen(ends[1][0], "rb", 0))
        old.close()
        while len(seen) < 2:
            await asyncio.sleep(0)
        new.close()
        for _, writer in ends:
            os.close(writer)
        await asyncio.sleep(0)
        assert seen[:2] == [("new", b"data"), ("old", "lost")]
