"""File descriptors closed without telling the loop, and their numbers used again."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import weakref

import pytest
from connections import Recorder, connected, eventually


@pytest.mark.ours
async def test_number_used_again(loop):
    """The new owner of a number gets its events, and the old callback none.

    asyncio's own loop takes the new fd for the old one and never reports it.
    """
    for _ in range(50):
        near, far = socket.socketpair()
        number = near.fileno()
        old, new = [], asyncio.Event()
        loop.add_reader(number, old.append, "old")
        near.close()  # Without remove_reader.
        far.close()
        read, write = os.pipe()
        if read != number:
            os.dup2(read, number)
            os.close(read)
        loop.add_reader(number, new.set)
        os.write(write, b"x")
        await new.wait()
        assert old == []
        loop.remove_reader(number)
        os.close(number)
        os.close(write)


async def test_closed_and_forgotten(loop):
    """The loop goes on when a watched fd is closed and never removed."""
    near, far = socket.socketpair()
    loop.add_reader(near, print)
    loop.add_writer(far, lambda: None)
    near.close()
    far.close()
    await asyncio.sleep(0.01)  # Some turns that may meet them.
    await asyncio.sleep(0)


async def test_removed_after_closing(loop):
    """As badly written programs do it: close first, then remove by number."""
    near, far = socket.socketpair()
    number = near.fileno()
    loop.add_reader(number, print)
    near.close()
    assert loop.remove_reader(number)
    assert not loop.remove_reader(number)
    far.close()


@pytest.mark.parametrize("kind", ["reader", "writer"])
async def test_the_object_removed_after_closing(loop, kind):
    """As anyio does when a UNIX stream is closed while a task waits for it."""
    add, remove = (getattr(loop, f"{action}_{kind}") for action in ("add", "remove"))
    near, far = socket.socketpair()
    add(near, lambda: None)
    near.close()
    assert remove(near)
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        remove(near)
    far.close()


@pytest.mark.ours
async def test_the_object_removed_after_its_number_became_a_transports(loop):
    """asyncio's own loop removes the transport's reader."""
    near, far = socket.socketpair()
    loop.add_reader(near, print)
    number = near.fileno()
    near.close()
    other, peer = socket.socketpair()
    if other.fileno() != number:
        other = socket.socket(fileno=os.dup2(other.detach(), number))
    transport, protocol = await loop.create_connection(Recorder, sock=other)
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        loop.remove_reader(near)
    peer.send(b"hello")
    await protocol.received(5)
    transport.close()
    peer.close()
    far.close()


async def test_a_watched_file_lives(loop):
    """Until it is removed, though nothing else refers to it."""
    near, far = socket.socketpair()
    told, alive = asyncio.Event(), weakref.ref(near)
    number = near.fileno()
    loop.add_reader(near, told.set)
    del near
    far.send(b"x")
    await told.wait()
    assert alive() is not None
    alive().close()
    assert loop.remove_reader(number)
    gc.collect()
    assert alive() is None
    far.close()


async def test_duplicate_keeps_the_file_open(loop):
    """A dup of a closed socket keeps the kernel's entry alive; its events are dropped."""
    near, far = socket.socketpair()
    copy = os.dup(near.fileno())
    called = []
    loop.add_reader(near, called.append, 1)
    loop.remove_reader(near)
    near.close()
    far.send(b"x")
    await asyncio.sleep(0.01)  # Long enough for a call, were there one.
    assert called == []
    os.close(copy)
    far.close()


async def test_transport_whose_socket_was_closed(loop, unhandled):
    """Whichever error that is, it ends one connection and not the loop."""
    async with connected() as (server, client):
        sock = client.transport.get_extra_info("socket")
        os.close(os.dup(sock.fileno()))
        server.transport.write(b"hello")
        await client.received(5)
        raw = client.transport._sock
        raw.close()
        client.transport.write(b"into nothing")
        client.transport.abort()
        await client.lost
    await asyncio.sleep(0)
    unhandled.clear()


async def test_transport_on_a_number_used_again(loop):
    """Connections one after another get the same numbers; none sees another's events."""
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    numbers = set()
    for number in range(200):
        transport, client = await loop.create_connection(Recorder, "127.0.0.1", port)
        numbers.add(transport.get_extra_info("socket").fileno())
        transport.write(b"%d" % number)
        if number % 2:
            transport.abort()
        else:
            transport.close()
        assert await client.lost is None
    assert len(numbers) < 200
    server.close()
    await server.wait_closed()


async def test_closing_from_a_callback_of_the_same_turn(loop):
    """Both fds are ready; the first callback closes the second's."""
    first, first_peer = socket.socketpair()
    second, second_peer = socket.socketpair()
    called = []

    def ready(name: str, other: socket.socket) -> None:
        called.append(name)
        loop.remove_reader(first)
        loop.remove_reader(second)
        other.close()

    loop.add_reader(first, ready, "first", second)
    loop.add_reader(second, ready, "second", first)
    first_peer.send(b"x")
    second_peer.send(b"x")
    await eventually(lambda: called)
    await asyncio.sleep(0.01)  # Long enough for another call, were there one.
    assert len(called) == 1
    for sock in (first, first_peer, second, second_peer):
        sock.close()


async def test_bad_fds(loop):
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    for wrong in (-1, read):
        with pytest.raises((OSError, ValueError)):
            loop.add_reader(wrong, print)
    with pytest.raises(ValueError):
        loop.add_reader("text", print)
    with pytest.raises(PermissionError), open(__file__) as file:  # noqa: ASYNC230
        loop.add_reader(file, print)


async def test_file_objects_and_numbers_are_the_same(loop):
    near, far = socket.socketpair()
    called = []
    loop.add_reader(near, called.append, 1)
    loop.add_reader(near.fileno(), called.append, 2)  # Replaces the first.
    far.send(b"x")
    await eventually(lambda: called)
    assert set(called) == {2}
    assert loop.remove_reader(near.fileno())
    assert not loop.remove_reader(near)
    near.close()
    far.close()


async def test_reader_and_writer_of_one_fd(loop):
    near, far = socket.socketpair()
    near.setblocking(False)
    called = []
    loop.add_reader(near, called.append, "read")
    loop.add_writer(near, called.append, "write")
    await eventually(lambda: called)
    assert set(called) == {"write"}
    loop.remove_writer(near)
    far.send(b"x")
    await eventually(lambda: "read" in called)
    loop.remove_reader(near)
    called.clear()
    await asyncio.sleep(0.002)  # Long enough for a call, were there one.
    assert called == []
    near.close()
    far.close()


class _Failing:
    def fileno(self) -> int:
        raise RuntimeError("not now")


class _Number:
    def __index__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("file", "error"),
    [
        (-1, ValueError),
        (10**20, OverflowError),
        ("1", ValueError),
        (None, ValueError),
        (1.0, ValueError),
        (_Number(), ValueError),
        (_Failing(), RuntimeError),
    ],
    ids=lambda given: type(given).__name__,
)
async def test_what_is_not_a_file_is_refused(loop, file, error):
    for watch in (loop.add_reader, loop.add_writer):
        with pytest.raises(error):
            watch(file, print)
