"""What a protocol is given is its own: memory of a message that was not kept is used for the next
one, which must not be noticeable.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest


class Receiver(asyncio.Protocol, asyncio.DatagramProtocol):
    """Calls `look` with each message."""

    def __init__(self, look: Callable[[bytes], Any]) -> None:
        self.look = look
        self.seen: list[Any] = []
        self.length = 0
        self.waiter: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        self.length += len(data)
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        self.seen.append(self.look(data))

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.data_received(data)

    async def got(self, length: int) -> None:
        while self.length < length:
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter


async def opened(kind: str, receiver: Receiver) -> tuple[Callable[[bytes], Any], Any]:
    """How to send it something, and its transport."""
    loop = asyncio.get_running_loop()
    if kind == "pipe":
        read_end, write_end = os.pipe()
        transport, _ = await loop.connect_read_pipe(lambda: receiver, os.fdopen(read_end, "rb", 0))
        return os.fdopen(write_end, "wb", 0).write, transport
    if kind == "udp":
        transport, _ = await loop.create_datagram_endpoint(
            lambda: receiver, local_addr=("127.0.0.1", 0)
        )
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.connect(transport.get_extra_info("sockname"))
        return sender.send, transport
    ours, theirs = socket.socketpair()
    transport, _ = await loop.create_connection(lambda: receiver, sock=ours)
    return theirs.sendall, transport


async def looked_at(kind: str, messages: list[bytes], look: Callable[[bytes], Any]) -> list[Any]:
    """The results of `look`; each message is sent when the one before has arrived."""
    receiver = Receiver(look)
    send, transport = await opened(kind, receiver)
    length = 0
    for message in messages:
        send(message)
        length += len(message)
        await receiver.got(length)
    transport.close()
    send.__self__.close()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    return receiver.seen


def numbered(*lengths: int) -> list[bytes]:
    """Messages that differ in every place, of hexadecimal digits."""
    return [(f"{n + 1:x}" * length)[:length].encode() for n, length in enumerate(lengths)]


def copied(data: bytes) -> bytes:
    return bytes(bytearray(data))


ALIKE = (1000, 1000, 1000, 999, 990, 1000, 900, 1000, 100, 101, 1, 1, 2, 1000, 40_000, 1000)
LARGE = (65_536, 65_536, 65_536, 60_000, 65_536, 20_000, 65_536, 10, 65_536, 65_536, 5_000)

kinds = pytest.mark.parametrize("kind", ["socket", "pipe", "udp"])


@kinds
async def test_what_is_kept_stays(loop, kind):
    messages = numbered(*ALIKE)
    kept = await looked_at(kind, messages, lambda data: data)
    assert b"".join(kept) == b"".join(messages)


@kinds
async def test_some_are_kept(loop, kind):
    """In a list, through a view, by an iterator; the rest is released."""
    ways = [lambda data: data, memoryview, iter, lambda _data: b"", lambda _data: b""]
    turns = iter(ways * 20)

    def look(data):
        return next(turns)(data), copied(data)

    for kept, copy in await looked_at(kind, numbered(*(ALIKE * 5)), look):
        assert bytes(kept) in (copy, b"")


async def test_large_ones(loop):
    messages = numbered(*LARGE)
    assert b"".join(await looked_at("socket", messages, copied)) == b"".join(messages)
    assert b"".join(await looked_at("socket", messages, lambda data: data)) == b"".join(messages)
    turns = iter(range(1000))
    kept = await looked_at(
        "socket", messages * 3, lambda data: (data if next(turns) % 3 else b"", copied(data))
    )
    assert all(data in (copy, b"") for data, copy in kept)


@kinds
async def test_each_is_like_new(loop, kind):
    """Its length, its hash, and that a number can be read from it, which looks for its end."""

    def look(data):
        copy = copied(data)
        numbers = int(data, 16), int(copy, 16)
        return len(data) == len(copy), hash(data) == hash(copy), numbers[0] == numbers[1]

    seen = await looked_at(kind, numbered(*(ALIKE * 3)), look)
    assert set(seen) == {(True, True, True)}


async def test_an_exception_keeps_it(loop):
    """In the frame that its traceback shows."""
    failures = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))

    def look(data):
        raise ValueError(copied(data))

    messages = numbered(*(1000 for _ in range(10)))
    await looked_at("udp", messages, look)
    assert [error.args[0] for error in failures] == messages
    for error in failures:
        frame = error.__traceback__
        while frame.tb_next is not None:
            frame = frame.tb_next
        assert frame.tb_frame.f_locals["data"] == error.args[0]
    failures.clear()
