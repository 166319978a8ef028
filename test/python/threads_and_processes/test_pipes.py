"""Pipes of the caller's own: connect_read_pipe and connect_write_pipe."""

from __future__ import annotations

import asyncio
import os

import pytest
from connections import Recorder, eventually


async def reading(loop, fd: int) -> Recorder:
    _, protocol = await loop.connect_read_pipe(Recorder, os.fdopen(fd, "rb", 0))
    return protocol


async def writing(loop, fd: int) -> Recorder:
    _, protocol = await loop.connect_write_pipe(Recorder, os.fdopen(fd, "wb", 0))
    return protocol


async def test_both_ends(loop):
    read, write = os.pipe()
    reader, writer = await reading(loop, read), await writing(loop, write)
    data = os.urandom(3_000_000)
    writer.transport.write(data[:10])
    writer.transport.write(data[10:])
    assert await reader.received(len(data)) == data
    writer.transport.close()
    assert await writer.lost is None
    assert await reader.lost is None
    assert reader.events[-2:] == ["eof", "lost"]


async def test_write_eof(loop):
    read, write = os.pipe()
    reader, writer = await reading(loop, read), await writing(loop, write)
    assert writer.transport.can_write_eof()
    writer.transport.write(b"all")
    writer.transport.write_eof()
    assert await writer.lost is None
    await reader.lost
    assert reader.data == b"all"


async def test_reader_that_leaves(loop):
    """The writer is notified at once, though it does not write."""
    read, write = os.pipe()
    writer = await writing(loop, write)
    os.close(read)
    # asyncio says BrokenPipeError if data waited, and nothing if not.
    assert await writer.lost is None or isinstance(writer.lost.result(), BrokenPipeError)


async def test_broken_pipe_with_data_waiting(loop):
    read, write = os.pipe()
    writer = await writing(loop, write)
    writer.transport.write(bytes(1_000_000))
    os.close(read)
    assert isinstance(await writer.lost, BrokenPipeError)


async def test_flow_control(loop):
    read, write = os.pipe()
    writer = await writing(loop, write)
    while not writer.paused.is_set():
        writer.transport.write(bytes(10_000))
    assert writer.transport.get_write_buffer_size() > 64 * 1024
    reader = await reading(loop, read)
    await writer.resumed.wait()
    writer.transport.close()
    await reader.lost
    await writer.lost


async def test_pause_reading(loop):
    read, write = os.pipe()
    reader = await reading(loop, read)
    reader.transport.pause_reading()
    os.write(write, b"waits")
    await asyncio.sleep(0.02)  # Long enough for it to arrive, were it read.
    assert reader.data == b""
    reader.transport.resume_reading()
    assert await reader.received(5) == b"waits"
    os.close(write)
    await reader.lost


async def test_close_while_data_waits(loop):
    read, write = os.pipe()
    writer = await writing(loop, write)
    data = os.urandom(500_000)
    writer.transport.write(data)
    writer.transport.close()
    reader = await reading(loop, read)
    await reader.lost
    assert reader.data == data
    await writer.lost


async def test_abort(loop):
    read, write = os.pipe()
    writer = await writing(loop, write)
    writer.transport.write(bytes(1_000_000))
    writer.transport.abort()
    assert await writer.lost is None
    os.close(read)


async def test_fifo_and_terminal(loop, tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = await reading(loop, os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    writer = await writing(loop, os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    writer.transport.write(b"through a fifo")
    assert await reader.received(14) == b"through a fifo"
    writer.transport.close()
    await reader.lost
    await writer.lost

    master, slave = os.openpty()
    terminal = await reading(loop, slave)
    os.write(master, b"typed\n")
    assert await terminal.received(6) == b"typed\n"
    terminal.transport.close()
    await terminal.lost
    os.close(master)


async def test_regular_file_is_refused(loop, tmp_path):
    path = tmp_path / "file"
    path.write_text("not a pipe")
    with path.open("rb") as file:
        with pytest.raises(ValueError):
            await loop.connect_read_pipe(Recorder, file)


async def test_stream_reader_on_a_pipe(loop):
    read, write = os.pipe()
    stream = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(read, "rb", 0)
    )
    os.write(write, b"one\ntwo\n")
    assert await stream.readline() == b"one\n"
    assert await stream.readline() == b"two\n"
    os.close(write)
    assert await stream.read() == b""
    transport.close()
    await eventually(transport.is_closing)
