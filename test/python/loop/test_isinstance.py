"""Are transports, handles and servers what asyncio says they are?"""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
from connections import Datagrams, connected


async def test_handles(loop):
    handle, timer = loop.call_soon(print), loop.call_later(3600, print)
    assert isinstance(handle, asyncio.Handle)
    assert not isinstance(handle, asyncio.TimerHandle)
    assert isinstance(timer, asyncio.Handle)
    assert isinstance(timer, asyncio.TimerHandle)
    handle.cancel()
    timer.cancel()


async def test_stream_transports(loop):
    async with connected() as (server, client):
        for transport in (server.transport, client.transport):
            assert isinstance(transport, asyncio.Transport)
            assert isinstance(transport, asyncio.ReadTransport)
            assert isinstance(transport, asyncio.WriteTransport)
            assert isinstance(transport, asyncio.BaseTransport)
            assert not isinstance(transport, asyncio.DatagramTransport)


@pytest.mark.ours
async def test_datagram_transports(loop):
    """asyncio's own is one from 3.12 on."""
    transport, protocol = await loop.create_datagram_endpoint(
        Datagrams, local_addr=("127.0.0.1", 0)
    )
    assert isinstance(transport, asyncio.DatagramTransport)
    transport.close()
    await protocol.lost


async def test_pipes_and_processes(loop):
    read, write = os.pipe()
    reader, _ = await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(read, "rb", 0))
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(write, "wb", 0))
    assert isinstance(reader, asyncio.ReadTransport)
    assert isinstance(writer, asyncio.WriteTransport)
    reader.close()
    writer.close()
    process, _ = await loop.subprocess_exec(asyncio.SubprocessProtocol, "true", stdin=None)
    assert isinstance(process, asyncio.SubprocessTransport)
    await process._wait()
    process.close()


async def test_loop_and_server(loop):
    assert isinstance(loop, asyncio.AbstractEventLoop)
    assert isinstance(loop, asyncio.BaseEventLoop)
    assert isinstance(loop, asyncio.SelectorEventLoop)
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    assert isinstance(server, asyncio.AbstractServer)
    assert isinstance(server, asyncio.Server)
    assert all(sock.family == socket.AF_INET for sock in server.sockets)
    server.close()
    await server.wait_closed()


async def test_tasks_and_futures_are_asyncio_s(loop):
    assert type(loop.create_future()) is asyncio.Future
    task = loop.create_task(asyncio.sleep(0))
    assert type(task) is asyncio.Task
    await task


async def test_streams_see_through(loop):
    """StreamWriter and subclasses of protocols use `transport` attributes of all kinds."""
    async with connected() as (_, client):
        transport = client.transport
        transport.my_attribute = 1  # Libraries leave notes on transports.
        assert transport.my_attribute == 1
        assert {transport: 1}[transport] == 1
        assert transport == transport
