"""TCP connections: are the callbacks called as asyncio does, and does every byte arrive?"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import sys

import pytest
from connections import Buffered, Recorder, connected, echo, eventually


async def test_connection_made_comes_first(loop):
    """Before create_connection returns: clients use the transport at once."""

    class Early(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.write(b"first words")

    async with connected(client_factory=Early) as (server, client):
        assert client.events[0] == "made"
        assert await server.received(11) == b"first words"


async def test_what_connection_made_schedules_comes_before_data(loop):
    """Though the data is there already."""

    class Scheduling(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            loop.call_soon(self.events.append, "soon")
            self.task = loop.create_task(self.run())

        async def run(self):
            self.events.append("task")

    accepted = loop.create_future()

    def accept() -> Scheduling:
        accepted.set_result(Scheduling())
        return accepted.result()

    server = await loop.create_server(accept, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        client.sendall(b"hello")
        protocol = await accepted
        await protocol.received(5)
        assert protocol.events == ["made", "soon", "task", "data"]
        protocol.transport.close()
        await protocol.lost
    server.close()


async def test_a_socket_shut_down_by_hand_has_sent_what_was_written(loop):
    async with connected() as (server, client):
        client.transport.write(b"one")
        client.transport.write(b"two")
        client.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        await server.eof
        assert server.data == b"onetwo"


def test_writes_to_a_loop_that_does_not_run_are_sent_at_once(loop):
    near, far = socket.socketpair()
    near.setblocking(False)
    far.settimeout(10)
    transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=near))
    for data in (b"one", b"two", b"three"):
        transport.write(data)
        assert far.recv(100) == data
    transport.close()
    loop.run_until_complete(asyncio.sleep(0))
    far.close()


async def test_writelines_takes_whatever_has_a_buffer(loop):
    async with connected() as (server, client):
        pieces = [b"b", bytearray(b"a"), memoryview(b"m"), array.array("B", b"r")]
        client.transport.writelines(pieces)
        assert await server.received(4) == b"bamr"
        for wrong in (None, "text", 1):
            with pytest.raises(TypeError):
                client.transport.writelines([wrong])


async def test_small_writes_keep_their_order(loop):
    """Several writes in one callback, in pieces of all kinds."""
    async with connected() as (server, client):
        expected = bytearray()
        for number in range(500):
            piece = b"%d," % number
            kinds = (piece, bytearray(piece), memoryview(piece))
            client.transport.write(kinds[number % 3])
            expected += piece
        client.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c"), b""])
        expected += b"abc"
        assert await server.received(len(expected)) == expected


async def write_several(transport: asyncio.Transport, number: int) -> None:
    """As a program that usually does: the loop learns to wait with the first write, too."""
    await asyncio.sleep(0)
    for part in range(3):
        transport.write(b"%d.%d," % (number, part))


async def test_several_writes_and_single_ones_stay_in_order(loop):
    async with connected() as (server, client):
        expected = b""
        for number in range(6):
            await write_several(server.transport, number)
            await asyncio.sleep(0)
            server.transport.write(b"single,")
            await asyncio.sleep(0)
            expected += b"".join(b"%d.%d," % (number, part) for part in range(3)) + b"single,"
        assert await client.received(len(expected)) == expected


async def test_what_was_written_is_sent_before_an_abort(loop):
    """Though it was the first write of the callback, and waited for more."""
    async with connected() as (server, client):
        await write_several(server.transport, 1)
        await client.received(12)
        await asyncio.sleep(0)
        server.transport.write(b"last words")
        assert server.transport.get_write_buffer_size() == 0
        server.transport.abort()
        assert (await client.received(22)).endswith(b"last words")


async def test_a_single_write_goes_out_at_once_again(loop):
    """A program that writes once and then computes must not delay its response."""
    async with connected() as (server, client):
        await write_several(server.transport, 1)
        await client.received(12)
        for _ in range(2):
            await asyncio.sleep(0)
            server.transport.write(b"single")
        await client.received(24)
        sock = socket.socket(fileno=os.dup(client.transport.get_extra_info("socket").fileno()))
        with sock:
            client.transport.pause_reading()
            server.transport.write(b"alone")
            # In the same callback: nothing was flushed yet.
            assert sock.recv(10) == b"alone"


async def test_changed_after_writing(loop):
    """A bytearray belongs to its owner again as soon as write() has returned."""
    async with connected() as (server, client):
        sent = bytearray(b"x" * 3_000_000)
        client.transport.write(sent)
        sent[:] = b"y" * len(sent)
        second = bytearray(b"z" * 10)
        client.transport.write(second)
        second[:] = b"w" * 10
        data = await server.received(3_000_010)
        assert data == b"x" * 3_000_000 + b"z" * 10


async def test_writes_and_writelines_mixed(loop):
    async with connected() as (server, client):
        expected = b""
        for number in range(200):
            client.transport.write(b"w%d" % number)
            client.transport.writelines([b"l%d" % number, b"m" * 2000])
            client.transport.write(b"e")
            expected += b"w%dl%d" % (number, number) + b"m" * 2000 + b"e"
        assert await server.received(len(expected)) == expected


async def test_close_sends_what_was_written(loop):
    """close() sends data that waits, then calls connection_lost(None)."""
    async with connected() as (server, client):
        server.transport.pause_reading()
        data = os.urandom(5_000_000)
        client.transport.write(data)
        client.transport.close()
        assert client.transport.is_closing()
        assert "lost" not in client.events
        server.transport.resume_reading()
        assert await client.lost is None
        assert await server.received(len(data)) == data
        await server.lost


async def test_close_calls_connection_lost_later(loop):
    async with connected() as (_, client):
        client.transport.close()
        assert client.events == ["made"]
        assert await client.lost is None
        client.transport.close()  # A second time does nothing.
        await asyncio.sleep(0)
        assert client.events == ["made", "lost"]


async def test_abort_drops_what_was_written(loop):
    async with connected() as (server, client):
        server.transport.pause_reading()
        client.transport.write(bytes(10_000_000))
        client.transport.abort()
        assert await client.lost is None
        assert client.transport.get_write_buffer_size() == 0
        server.transport.resume_reading()
        await server.lost
        assert len(server.data) < 10_000_000


async def test_write_after_close(loop, caplog):
    """Dropped; from the fifth on asyncio logs a warning."""
    async with connected() as (server, client):
        client.transport.close()
        for _ in range(8):
            client.transport.write(b"too late")
        await client.lost
        await server.lost
        assert server.data == b""
    assert "socket.send() raised exception." in caplog.text


async def test_wrong_types(loop):
    """Misuse raises and leaves the connection as it was."""
    async with connected() as (server, client):
        for wrong in ("text", 5, None, [b"list"], object()):
            with pytest.raises(TypeError):
                client.transport.write(wrong)
        client.transport.write(b"still here")
        assert await server.received(10) == b"still here"


async def test_pause_and_resume_reading(loop):
    async with connected() as (server, client):
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        client.transport.write(b"waits")
        await asyncio.sleep(0.02)  # Long enough for it to arrive, were it read.
        assert server.data == b""
        server.transport.resume_reading()
        assert server.transport.is_reading()
        assert await server.received(5) == b"waits"
        server.transport.pause_reading()
        server.transport.pause_reading()
        server.transport.resume_reading()


async def test_set_protocol(loop):
    """A connection may change its protocol, also to a buffered one and back."""
    async with connected() as (server, client):
        client.transport.write(b"one")
        await server.received(3)
        buffered = Buffered()
        server.transport.set_protocol(buffered)
        assert server.transport.get_protocol() is buffered
        client.transport.write(b"two and more than seven")
        await eventually(lambda: len(buffered.data) == 23)
        assert bytes(buffered.data) == b"two and more than seven"
        assert buffered.updates == 4
        server.transport.set_protocol(server)
        client.transport.write(b"three")
        assert await server.received(8) == b"onethree"


async def test_buffered_protocol(loop):
    async with connected(server_factory=Buffered) as (server, client):
        data = os.urandom(100_000)
        client.transport.write(data)
        client.transport.close()
        await server.lost
        assert server.data == data


async def test_addresses_and_socket(loop):
    async with connected() as (server, client):
        near, far = client.transport, server.transport
        assert near.get_extra_info("sockname") == far.get_extra_info("peername")
        assert near.get_extra_info("peername") == far.get_extra_info("sockname")
        assert near.get_extra_info("nothing", "default") == "default"
        for transport in (near, far):
            sock = transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.type == socket.SOCK_STREAM
            # asyncio's TransportSocket has no methods that could interfere.
            assert not hasattr(sock, "recv")


@pytest.mark.ours
async def test_nodelay_of_a_listener_that_names_no_protocol(loop):
    """asyncio leaves TCP_NODELAY off for what such a listener accepts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert listener.proto == 0
        accepted = loop.create_future()
        server = await asyncio.start_server(
            lambda _reader, writer: accepted.set_result(writer), sock=listener
        )
        async with server:
            _, client = await asyncio.open_connection(*listener.getsockname())
            for writer in (client, await accepted):
                sock = writer.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                writer.close()
                await writer.wait_closed()


async def test_local_addr(loop):
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    # Linux has all of 127.0.0.0/8.
    local = ("127.0.0.2", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
    assert writer.get_extra_info("sockname")[0] == "127.0.0.2"
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_refused(loop):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", port)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="all_errors is new in 3.12")
async def test_all_errors(loop):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ExceptionGroup) as caught:
            await loop.create_connection(Recorder, "127.0.0.1", port, all_errors=True)
        assert [type(error) for error in caught.value.exceptions] == [ConnectionRefusedError]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="keep_alive is new in 3.13")
async def test_keep_alive(loop):
    async with connected(keep_alive=True) as (server, _):
        sock = server.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_happy_eyeballs(loop):
    """A name with two addresses, where the first is not served."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("localhost", port, happy_eyeballs_delay=0.05)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_given_sockets(loop):
    """connect_accepted_socket, and create_connection with a connected socket."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    _, server = await loop.connect_accepted_socket(Recorder, near)
    _, client = await loop.create_connection(Recorder, sock=far)
    client.transport.write(b"hello")
    assert await server.received(5) == b"hello"
    client.transport.close()
    assert await server.lost is None


async def test_peer_resets(loop):
    """A reset reaches connection_lost as an error, not the exception handler."""
    async with connected() as (server, client):
        sock = client.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.transport.abort()
        assert isinstance(await server.lost, ConnectionResetError)


async def test_write_to_a_peer_that_is_gone(loop):
    async with connected() as (server, client):
        server.transport.abort()
        await server.lost
        while not client.transport.is_closing():
            client.transport.write(b"anyone?")
            await asyncio.sleep(0)
        error = await client.lost
        assert error is None or isinstance(error, ConnectionError)


async def test_1000_clients_10_messages(loop):
    server = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]

    async def talk(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for message in range(10):
            line = b"%d %d\n" % (number, message)
            writer.write(line)
            assert await reader.readline() == line
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    await asyncio.gather(*map(talk, range(1000)))
    server.close()
    await server.wait_closed()


async def test_big_transfer_both_ways(loop):
    async with connected() as (server, client):
        data = os.urandom(20_000_000)
        client.transport.write(data)
        server.transport.write(data[::-1])
        assert await server.received(len(data)) == data
        assert await client.received(len(data)) == data[::-1]


async def test_local_ipv6(loop):
    server = await asyncio.start_server(echo, "::1", 0)
    host, port, *_ = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    assert writer.get_extra_info("peername")[:2] == ("::1", port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_transport_repr(loop):
    async with connected() as (_, client):
        assert "fd=" in repr(client.transport)
        client.transport.close()
        await client.lost
        assert "closed" in repr(client.transport)
