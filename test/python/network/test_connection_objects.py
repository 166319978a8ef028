"""What Python sees of a connection: its socket, its addresses, its place in the loop.

ErlangEventLoop makes these objects only when they are asked for; that must not show.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket

import pytest
from command import same_as_python
from connections import Buffered, HalfOpen, Recorder, connected, eventually

KIB = 1024


@pytest.mark.parametrize("side", [0, 1])
async def test_socket_of_either_side(loop, side):
    async with connected() as ends:
        transport = ends[side].transport
        shown = transport.get_extra_info("socket")
        assert transport.get_extra_info("socket") is shown
        assert shown.fileno() == transport._sock.fileno() == transport._sock_fd
        assert shown.getsockname() == transport.get_extra_info("sockname")
        assert shown.getpeername() == transport.get_extra_info("peername")
        assert (shown.family, shown.type) == (socket.AF_INET, socket.SOCK_STREAM)
        assert shown.gettimeout() == 0
        # Both ways, also after it was read.
        ends[0].transport.write(b"down")
        assert await ends[1].received(4) == b"down"
        ends[1].transport.write(b"up")
        assert await ends[0].received(2) == b"up"


@pytest.mark.parametrize("side", [0, 1])
async def test_after_the_end(loop, side):
    async with connected() as ends:
        transport = ends[side].transport
        names = ends[1 - side].transport
        own, peer = (names.get_extra_info(name) for name in ("peername", "sockname"))
        transport.close()
        await ends[side].lost
        await eventually(lambda: transport._sock is None)
        # It was not created before.
        assert transport.get_extra_info("sockname") == own
        assert transport.get_extra_info("peername") == peer
        shown = transport.get_extra_info("socket")
        assert (shown.fileno(), shown.family) == (-1, socket.AF_INET)


async def test_extra_info_of_a_connection(loop):
    async with connected() as (server, _):
        assert set(server.transport._extra) == {"socket", "sockname", "peername"}
        # What a program puts there is found again.
        server.transport._extra["own"] = 1
        assert server.transport.get_extra_info("own") == 1
        assert server.transport.get_extra_info(name="none", default=2) == 2
        with pytest.raises(TypeError):
            server.transport.get_extra_info()


async def test_ipv6(loop):
    made: asyncio.Future[Recorder] = loop.create_future()

    def accept() -> Recorder:
        protocol = Recorder()
        made.set_result(protocol)
        return protocol

    try:
        server = await loop.create_server(accept, "::1", 0)
    except OSError as problem:
        pytest.skip(f"no IPv6 here: {problem}")
    name = server.sockets[0].getsockname()
    transport, client = await loop.create_connection(Recorder, "::1", name[1])
    accepted = await made
    await accepted.made
    assert transport.get_extra_info("peername") == name
    assert transport.get_extra_info("sockname") == accepted.transport.get_extra_info("peername")
    assert accepted.transport.get_extra_info("sockname") == name
    assert accepted.transport.get_extra_info("socket").family == socket.AF_INET6
    transport.close()
    await client.lost
    await accepted.lost
    server.close()
    await server.wait_closed()


async def test_fd_belongs_to_the_transport(loop):
    """From its beginning to its end, whether it reads or not."""
    async with connected(HalfOpen) as (server, client):
        transport = server.transport
        fd = transport._sock_fd

        def refused() -> bool:
            with pytest.raises(RuntimeError, match="is used by transport"):
                loop.add_reader(fd, print)
            return loop._transports[fd] is transport

        assert refused()
        transport.pause_reading()
        assert refused()
        transport.resume_reading()
        assert refused()
        client.transport.write_eof()
        await server.eof
        assert refused()
        transport.close()
        await server.lost


async def test_fd_belongs_to_a_new_transport(loop):
    """Before `connection_made`, too."""
    near, far = socket.socketpair()
    near.setblocking(False)
    transport = loop._make_socket_transport(near, protocol := Recorder())
    with pytest.raises(RuntimeError, match="is used by transport"):
        loop.add_reader(near, print)
    await protocol.made
    transport.close()
    await protocol.lost
    far.close()


async def test_taken_out_and_put_back(loop):
    """asyncio does so for `sendfile`."""
    async with connected() as (server, _):
        transport = server.transport
        fd = transport._sock_fd
        before = len(loop._transports)
        del loop._transports[fd]
        assert fd not in loop._transports
        with pytest.raises(KeyError):
            del loop._transports[fd]
        transport.pause_reading()
        assert fd not in loop._transports
        transport.resume_reading()
        loop._transports[fd] = transport
        assert loop._transports[fd] is transport
        assert len(loop._transports) == before


@pytest.mark.ours
async def test_a_class_of_its_own(loop, monkeypatch):
    """A program that has put another class in the place of Python's gets that."""

    class Watched(socket.socket):
        pass

    monkeypatch.setattr(socket, "socket", Watched)
    async with connected() as (server, client):
        assert type(server.transport._sock) is Watched
        assert type(client.transport._sock) is Watched


@pytest.mark.ours
def test_forgotten_connection_is_closed(loop):
    """A connection that its program drops is reported, and its descriptor closed."""
    listener = socket.create_server(("127.0.0.1", 0))

    async def connect() -> int:
        transport, _ = await loop.create_connection(asyncio.Protocol, *listener.getsockname())
        transport.pause_reading()
        return transport._sock_fd

    def forget() -> int:
        fd = loop.run_until_complete(connect())
        gc.collect()
        return fd

    with pytest.warns(ResourceWarning, match="unclosed transport"):
        fd = forget()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    listener.close()


def test_forgotten_until_the_end_of_python():
    """There is nothing left to warn with then, which is no error."""
    program = """
import asyncio
class Keeper(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport
async def main():
    await loop.create_datagram_endpoint(Keeper, local_addr=("127.0.0.1", 0))
    print("open")
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""
    assert same_as_python("-c", program).out == "open\n"


@pytest.mark.parametrize("size", [1, 15 * KIB, 64 * KIB, 64 * KIB + 1, 300 * KIB, 3000 * KIB])
async def test_messages_of_all_sizes(loop, size):
    """Large ones are received in another way than small ones, and one may follow the other."""
    async with connected() as (server, client):
        whole = b""
        for number, length in enumerate((size, 10, size, size, 1, 20 * KIB)):
            message = os.urandom(length)
            whole += message
            client.transport.write(message)
            if number % 2:
                assert await server.received(len(whole)) == whole
        assert await server.received(len(whole)) == whole
        client.transport.close()
        assert await server.lost is None


async def test_end_after_large_messages(loop):
    async with connected() as (server, client):
        client.transport.write(bytes(64 * KIB))
        await server.received(64 * KIB)
        client.transport.abort()
        await server.lost
        assert server.events[-2:] in (["eof", "lost"], ["data", "lost"])


class Odd(Buffered):
    """Its buffers are of another kind in each test."""

    def __init__(self, buffer: object) -> None:
        super().__init__()
        self.given = buffer

    def get_buffer(self, sizehint: int) -> object:  # type: ignore[override]
        return self.given


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (b"", "get_buffer() call failed"),
        (bytearray(), "get_buffer() call failed"),
        (None, "get_buffer() call failed"),
        (b"read-only", "Fatal read error"),
        (memoryview(bytearray(20))[::2], "Fatal read error"),
        ("text", "Fatal read error"),
    ],
)
async def test_buffers_that_cannot_be_used(loop, buffer, message, unhandled):
    async with connected(lambda: Odd(buffer)) as (server, client):
        client.transport.write(b"data")
        assert await server.lost is not None
        assert message in str(unhandled.pop()["message"])


async def test_buffer_is_released(loop):
    """A protocol may resize its buffer as soon as buffer_updated() is called."""

    class Growing(Buffered):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.buffer.extend(bytes(10))

    async with connected(Growing) as (server, client):
        client.transport.write(bytes(100))
        await eventually(lambda: len(server.data) == 100)
        assert len(server.buffer) > 7
