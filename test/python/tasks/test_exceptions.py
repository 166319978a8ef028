"""What happens when callbacks raise: in every position a program has one.

An ordinary error reaches the loop's exception handler, or ends the one connection it concerns, and
the loop goes on. SystemExit and KeyboardInterrupt leave the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import traceback

import pytest
from connections import Buffered, Datagrams, Recorder, connected, endpoint, eventually


class OursError(Exception):
    """Raised on purpose."""


def fail(*_args: object) -> None:
    raise OursError


def errors(unhandled: list) -> list[type]:
    """The types of the errors that were handled so far; forgotten then."""
    types = [type(context.get("exception")) for context in unhandled]
    unhandled.clear()
    return types


async def test_callbacks(loop, unhandled):
    ran = []
    loop.call_soon(fail)
    loop.call_later(0, fail)
    loop.call_soon_threadsafe(fail)
    loop.call_soon(ran.append, "after")
    await asyncio.sleep(0.002)
    assert ran == ["after"]
    assert "Exception in callback fail()" in unhandled[0]["message"]
    assert isinstance(unhandled[0]["handle"], asyncio.Handle)
    # Where it was raised: the traceback got lost on the way once, on Python 3.11 and older.
    for context in unhandled:
        names = [frame.name for frame in traceback.extract_tb(context["exception"].__traceback__)]
        assert names[-1] == "fail"
    assert errors(unhandled) == [OursError] * 3


async def test_reader_and_writer(loop, unhandled):
    near, far = socket.socketpair()
    with near, far:
        far.send(b"x")
        loop.add_reader(near, fail)
        await eventually(lambda: unhandled)
        loop.remove_reader(near)
        loop.add_writer(near, fail)
        await eventually(lambda: len(unhandled) > 1)
        loop.remove_writer(near)
    assert set(errors(unhandled)) == {OursError}


async def _stays_open(loop: asyncio.AbstractEventLoop) -> bool:
    near, far = socket.socketpair()
    with near, far:
        with pytest.raises(OursError):
            await loop.create_connection(fail, sock=near)
        return near.fileno() >= 0


def _stays_open_on_stock() -> bool:
    stock = asyncio.SelectorEventLoop()
    try:
        return stock.run_until_complete(_stays_open(stock))
    finally:
        stock.close()


async def test_protocol_factory_of_a_client(loop):
    """The socket stays its owner's, or is closed: patch releases of Python differ, loops do not."""
    on_stock = await loop.run_in_executor(None, _stays_open_on_stock)
    assert await _stays_open(loop) == on_stock


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setblocking(False)
    return sock


@pytest.mark.ours
async def test_protocol_factory_of_a_server(loop, unhandled):
    """The one connection is closed; the server accepts the next. Debug mode reports it.

    asyncio's own loop forgets to close the connection.
    """
    refuse = True

    def factory() -> Recorder:
        if refuse:
            fail()
        return Recorder()

    server = await loop.create_server(factory, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with _connect(port) as sock:
        assert await loop.sock_recv(sock, 1) == b""
    assert errors(unhandled) == []
    loop.set_debug(True)
    with _connect(port) as sock:
        assert await loop.sock_recv(sock, 1) == b""
    assert errors(unhandled) == [OursError]
    loop.set_debug(False)
    refuse = False
    _, client = await loop.create_connection(Recorder, "127.0.0.1", port)
    client.transport.close()
    await client.lost
    server.close()
    await server.wait_closed()


def failing(method: str, base: type = Recorder) -> type:
    """A protocol whose method does what it should, and then fails."""

    def method_that_fails(self, *arguments):
        getattr(base, method)(self, *arguments)
        raise OursError

    return type("Failing", (base,), {method: method_that_fails})


async def test_connection_made(loop, unhandled):
    async with connected(server_factory=failing("connection_made")) as (server, client):
        assert errors(unhandled) == [OursError]
        # asyncio keeps the connection.
        client.transport.write(b"hello")
        assert await server.received(5) == b"hello"


@pytest.mark.parametrize("method", ["data_received", "eof_received"])
async def test_reading(loop, unhandled, method):
    """The connection is closed with the error."""
    async with connected(server_factory=failing(method)) as (server, client):
        client.transport.write(b"hello")
        client.transport.write_eof()
        assert isinstance(await server.lost, OursError)
        assert unhandled[0]["message"] == f"Fatal error: protocol.{method}() call failed."
        assert unhandled[0]["transport"] is server.transport
        assert unhandled[0]["protocol"] is server
        assert errors(unhandled) == [OursError]
        await client.lost


@pytest.mark.parametrize("method", ["get_buffer", "buffer_updated"])
async def test_reading_into_a_buffer(loop, unhandled, method):
    async with connected(server_factory=failing(method, Buffered)) as (server, client):
        client.transport.write(b"hello")
        assert isinstance(await server.lost, OursError)
        assert unhandled[0]["message"] == f"Fatal error: protocol.{method}() call failed."
        assert errors(unhandled) == [OursError]


@pytest.mark.parametrize("buffer", [b"read only", bytearray(), "text", None])
async def test_wrong_buffers(loop, unhandled, buffer):
    class Wrong(Buffered):
        def get_buffer(self, sizehint):
            return buffer

    async with connected(server_factory=Wrong) as (server, client):
        client.transport.write(b"hello")
        assert isinstance(await server.lost, (TypeError, BufferError, RuntimeError))
        assert len(errors(unhandled)) == 1


async def test_connection_lost(loop, unhandled):
    async with connected(server_factory=failing("connection_lost")) as (server, client):
        client.transport.close()
        await server.lost
        await asyncio.sleep(0)
        assert errors(unhandled) == [OursError]


async def test_pause_and_resume_writing(loop, unhandled):
    class Failing(failing("pause_writing"), failing("resume_writing")):
        pass

    async with connected(client_factory=Failing) as (server, client):
        server.transport.pause_reading()
        while not client.paused.is_set():
            client.transport.write(bytes(100_000))
        assert unhandled[0]["message"] == "protocol.pause_writing() failed"
        server.transport.resume_reading()
        await client.resumed.wait()
        assert unhandled[1]["message"] == "protocol.resume_writing() failed"
        assert errors(unhandled) == [OursError] * 2


async def test_datagram_received(loop, unhandled):
    protocol_class = failing("datagram_received", Datagrams)
    transport, protocol = await loop.create_datagram_endpoint(
        protocol_class, local_addr=("127.0.0.1", 0)
    )
    for _ in range(2):  # The endpoint lives on.
        transport.sendto(b"hello", transport.get_extra_info("sockname"))
        assert (await protocol.received.get())[0] == b"hello"
    await eventually(lambda: len(unhandled) == 2)
    assert errors(unhandled) == [OursError] * 2
    transport.close()
    await protocol.lost


async def test_error_received(loop, unhandled):
    async with endpoint(local_addr=("127.0.0.1", 0)) as (gone, _):
        address = gone.get_extra_info("sockname")
    protocol_class = failing("error_received", Datagrams)
    transport, protocol = await loop.create_datagram_endpoint(protocol_class, remote_addr=address)
    transport.sendto(b"anyone?")
    await protocol.errors.get()
    await eventually(lambda: unhandled)
    assert errors(unhandled) == [OursError]
    transport.close()
    await protocol.lost


async def test_pipe_protocols(loop, unhandled):
    read, write = os.pipe()
    _, protocol = await loop.connect_read_pipe(failing("data_received"), os.fdopen(read, "rb", 0))
    os.write(write, b"hello")
    await eventually(lambda: unhandled)
    assert errors(unhandled) == [OursError]
    os.close(write)
    await protocol.lost


async def test_exception_handler_itself(loop, caplog):
    """It is logged, and the loop goes on."""

    def handler(_loop, _context):
        raise OursError

    before = loop.get_exception_handler()
    loop.set_exception_handler(handler)
    with caplog.at_level(logging.ERROR, "asyncio"):
        loop.call_soon(fail)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert "Unhandled error in exception handler" in caplog.text
    loop.set_exception_handler(before)


async def test_default_handler_logs(loop, caplog):
    before = loop.get_exception_handler()
    loop.set_exception_handler(None)
    with caplog.at_level(logging.ERROR, "asyncio"):
        loop.call_soon(fail)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert "Exception in callback fail()" in caplog.text
    assert "OursError" in caplog.text
    loop.set_exception_handler(before)


async def test_task_that_is_not_awaited(loop, unhandled):
    import gc

    async def lonely() -> None:
        raise OursError

    task = asyncio.ensure_future(lonely())
    await asyncio.sleep(0)
    del task
    gc.collect()
    assert unhandled[0]["message"] == "Task exception was never retrieved"
    assert errors(unhandled) == [OursError]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_leaving_the_loop(loop, error):
    """Out of a callback, a timer, a task: run_forever raises, and may be called again."""

    def leave() -> None:
        raise error

    async def main() -> None:
        raise error

    loop.call_soon(leave)
    with pytest.raises(error):
        loop.run_forever()
    assert not loop.is_running()
    loop.call_later(0.001, leave)
    with pytest.raises(error):
        loop.run_forever()
    with pytest.raises(error):
        loop.run_until_complete(main())
    ran = []
    loop.call_soon(ran.append, 1)
    loop.run_until_complete(asyncio.sleep(0))
    assert ran == [1]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["connection_made", "data_received", "connection_lost"])
def test_leaving_out_of_a_protocol(loop, unhandled, error, method):
    class Leaving(Recorder):
        pass

    def leave(self, *arguments):
        getattr(Recorder, method)(self, *arguments)
        raise error

    setattr(Leaving, method, leave)
    near, far = socket.socketpair()
    far.setblocking(False)

    async def connect() -> Recorder:
        _, protocol = await loop.create_connection(Leaving, sock=near)
        return protocol

    with pytest.raises(error):
        loop.run_until_complete(connect())
        far.send(b"x")
        far.close()
        loop.run_forever()
    far.close()

    async def clean_up() -> None:
        transport = loop._transports.get(near.fileno()) if near.fileno() >= 0 else None
        if transport is not None:
            transport.abort()
        await asyncio.sleep(0.001)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    if method == "connection_lost":
        loop.run_until_complete(asyncio.sleep(0))
        return
    try:
        loop.run_until_complete(clean_up())
    finally:
        near.close()


async def test_base_exceptions_of_other_kinds(loop, unhandled):
    """Only those two leave; a BaseException of a program's own is reported."""

    class Odd(BaseException):
        pass

    def fail_oddly() -> None:
        raise Odd

    loop.call_soon(fail_oddly)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert errors(unhandled) == [Odd]
