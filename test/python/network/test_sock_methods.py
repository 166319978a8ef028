"""loop.sock_recv and similar methods, on the caller's own sockets."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    with near, far:
        yield near, far


@pytest.fixture
def udp():
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
    yield sockets
    for sock in sockets:
        sock.close()


async def test_recv_and_sendall(loop, pair):
    near, far = pair
    data = os.urandom(2_000_000)
    sending = asyncio.ensure_future(loop.sock_sendall(near, data))
    received = bytearray()
    while len(received) < len(data):
        received += await loop.sock_recv(far, 65_536)
    await sending
    assert received == data
    near.close()
    assert await loop.sock_recv(far, 1) == b""


@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_SEQPACKET"])
async def test_a_large_packet_comes_whole(loop, kind):
    near, far = socket.socketpair(socket.AF_UNIX, getattr(socket, kind))
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    for sock in (near, far):
        sock.setblocking(False)
    data = os.urandom(300_000)
    near.send(data)
    assert await loop.sock_recv(far, 1 << 20) == data
    receiving = asyncio.ensure_future(loop.sock_recv(far, 1 << 20))
    await asyncio.sleep(0)
    near.send(data)
    assert await receiving == data
    near.close()
    far.close()


async def test_cancelled_recv_loses_no_data(loop, pair):
    near, far = pair
    for number in range(20):
        waiting = asyncio.ensure_future(loop.sock_recv(far, 100))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        near.send(b"%d" % number)
        assert await loop.sock_recv(far, 100) == b"%d" % number


async def test_cancelled_when_data_is_there(loop, pair):
    """Data arrives, and the waiter is cancelled before it gets its turn: nothing is lost."""
    near, far = pair
    waiting = asyncio.ensure_future(loop.sock_recv(far, 100))
    await asyncio.sleep(0)
    near.send(b"hello")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await loop.sock_recv(far, 100) == b"hello"


async def test_time_limit(loop, pair):
    near, far = pair
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(loop.sock_recv(far, 1), 0.005)
    near.send(b"x")
    assert await asyncio.wait_for(loop.sock_recv(far, 1), 10) == b"x"


async def test_recv_into(loop, pair):
    near, far = pair
    buffer = bytearray(10)
    waiting = asyncio.ensure_future(loop.sock_recv_into(far, buffer))
    await asyncio.sleep(0)
    near.send(b"hello")
    assert await waiting == 5
    assert buffer[:5] == b"hello"
    near.send(b"more")
    assert await loop.sock_recv_into(far, memoryview(buffer)[5:7]) == 2
    assert buffer[:7] == b"hellomo"


async def test_connect_and_accept(loop):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        listener.setblocking(False)
        client.setblocking(False)
        accepting = asyncio.ensure_future(loop.sock_accept(listener))
        await asyncio.sleep(0)
        await loop.sock_connect(client, listener.getsockname())
        connection, address = await accepting
        with connection:
            assert address == client.getsockname()
            assert connection.gettimeout() == 0
            await loop.sock_sendall(client, b"hello")
            assert await loop.sock_recv(connection, 5) == b"hello"


async def test_connect_refused(loop):
    with socket.socket() as unused, socket.socket() as client:
        unused.bind(("127.0.0.1", 0))
        client.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(client, unused.getsockname())


async def test_cancelled_accept(loop):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepting = asyncio.ensure_future(loop.sock_accept(listener))
        await asyncio.sleep(0)
        accepting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await accepting
        with socket.create_connection(listener.getsockname()):
            connection, _ = await loop.sock_accept(listener)
            connection.close()


async def test_datagrams(loop, udp):
    near, far = udp
    waiting = asyncio.ensure_future(loop.sock_recvfrom(far, 100))
    await asyncio.sleep(0)
    assert await loop.sock_sendto(near, b"hello", far.getsockname()) == 5
    assert await waiting == (b"hello", near.getsockname())
    buffer = bytearray(10)
    await loop.sock_sendto(near, b"again", far.getsockname())
    assert await loop.sock_recvfrom_into(far, buffer) == (5, near.getsockname())
    assert buffer[:5] == b"again"


async def test_two_at_once_on_one_socket(loop, pair):
    """Reading and writing at the same time."""
    near, far = pair
    data = os.urandom(1_000_000)

    async def send(sock: socket.socket) -> None:
        await loop.sock_sendall(sock, data)

    async def receive(sock: socket.socket) -> bytes:
        received = bytearray()
        while len(received) < len(data):
            received += await loop.sock_recv(sock, 100_000)
        return bytes(received)

    results = await asyncio.gather(send(near), send(far), receive(near), receive(far))
    assert results[2:] == [data, data]


async def test_sendall_of_other_buffers(loop, pair):
    near, far = pair
    for data in (b"bytes", bytearray(b"array"), memoryview(b"view!"), b""):
        await loop.sock_sendall(near, data)
    assert await loop.sock_recv(far, 100) == b"bytesarrayview!"


async def test_socket_of_a_transport(loop, pair):
    near, _ = pair
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
    named = f"File descriptor {near.fileno()} is used by transport"
    with pytest.raises(RuntimeError, match=named):
        await loop.sock_recv(near, 1)
    with pytest.raises(RuntimeError, match=named):
        await loop.sock_recv_into(near, bytearray(1))
    with pytest.raises(RuntimeError, match="is used by transport"):
        loop.add_reader(near, print)
    transport.close()


async def test_numbers_are_used_again_between_two_waits(loop):
    """The kernel may have an entry of the socket that had the number before."""
    kept = []
    numbers = set()
    for round_number in range(20):
        one, other = socket.socketpair()
        for sock in (one, other):
            sock.setblocking(False)
        numbers.add(one.fileno())
        for _ in range(3):
            received = asyncio.ensure_future(loop.sock_recv(one, 10))
            await asyncio.sleep(0)
            await loop.sock_sendall(other, b"%d" % round_number)
            assert await received == b"%d" % round_number
        if round_number % 2:
            kept.append(one.dup())
        one.close()
        other.close()
    assert len(numbers) < 20, "no number was used twice"
    for sock in kept:
        sock.close()


async def test_waiting_continues_when_another_task_was_faster(loop):
    """A socket was readable, but what there was is gone: the wait is not over."""
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        received = asyncio.ensure_future(loop.sock_recv(one, 10))
        await asyncio.sleep(0)
        for _ in range(3):
            other.send(b"gone")
            assert one.recv(10) == b"gone"
            # A turn in which the kernel tells of it, if it does.
            await asyncio.sleep(0.001)
            assert not received.done()
        other.send(b"mine")
        assert await received == b"mine"
