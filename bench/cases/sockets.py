"""add_reader, add_writer and the sock_ methods, between two ends of a socket pair."""

from __future__ import annotations

import asyncio
import socket
import time

from bench.registry import Budget, Loop, Sample, begin, case, per_second, require

GROUP = "sockets"
MESSAGE = bytes(range(64))


def pair() -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    return one, other


@case("reader_writer", group=GROUP, unit="round trips/s", checked=True)
async def reader_writer(loop: Loop, budget: Budget) -> Sample:
    """Round trips of add_reader callbacks; each reply first waits for add_writer."""
    one, other = pair()
    done = loop.create_future()
    end = budget.deadline()
    count = 0

    def can_read(sock: socket.socket) -> None:
        nonlocal count
        if sock.recv(100) != MESSAGE:
            done.set_exception(AssertionError("a message came out wrong"))
            return
        if sock is one:
            count += 1
            if time.perf_counter() > end:
                done.set_result(None)
                return
        loop.add_writer(sock.fileno(), can_write, sock)

    def can_write(sock: socket.socket) -> None:
        loop.remove_writer(sock.fileno())
        sock.send(MESSAGE)

    # By number: rloop takes no socket.
    loop.add_reader(one.fileno(), can_read, one)
    loop.add_reader(other.fileno(), can_read, other)
    began = begin()
    can_write(one)
    try:
        await done
    finally:
        for sock in (one, other):
            loop.remove_reader(sock.fileno())
            loop.remove_writer(sock.fileno())
            sock.close()
    return per_second(count, began)


@case("sock_pingpong", group=GROUP, unit="round trips/s", checked=True)
async def sock_pingpong(loop: Loop, budget: Budget) -> Sample:
    """sock_sendall and sock_recv in two tasks."""
    one, other = pair()
    end = budget.deadline()
    count = 0

    async def echo() -> None:
        while data := await loop.sock_recv(other, 100):
            await loop.sock_sendall(other, data)

    task = asyncio.ensure_future(echo())
    began = begin()
    while not count or time.perf_counter() < end:
        await loop.sock_sendall(one, MESSAGE)
        require(await loop.sock_recv(one, 100) == MESSAGE, "a message came out wrong")
        count += 1
    sample = per_second(count, began)
    one.close()
    await task
    other.close()
    return sample
