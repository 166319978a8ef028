"""Names and addresses."""

from __future__ import annotations

import asyncio
import socket

import pytest


async def test_localhost(loop):
    found = await loop.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
    assert {entry[4][0] for entry in found} & {"127.0.0.1", "::1"}
    assert found == socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)


async def test_numbers(loop):
    family = {"family": socket.AF_INET, "type": socket.SOCK_STREAM}
    found = await loop.getaddrinfo("127.0.0.1", "80", **family)
    assert found[0][4] == ("127.0.0.1", 80)
    found = await loop.getaddrinfo(None, 80, flags=socket.AI_PASSIVE, **family)
    assert found[0][4] == ("0.0.0.0", 80)


async def test_getnameinfo(loop):
    address = ("127.0.0.1", 80)
    flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    assert await loop.getnameinfo(address, flags) == ("127.0.0.1", "80")
    assert await loop.getnameinfo(address) == socket.getnameinfo(address, 0)


async def test_unknown_name(loop):
    with pytest.raises(socket.gaierror):
        await loop.getaddrinfo("name.invalid", 80)
    with pytest.raises(OSError):
        await asyncio.open_connection("name.invalid", 80)


async def test_many_at_once(loop):
    """They run in threads, and the loop goes on."""
    lookups = asyncio.gather(*(loop.getaddrinfo("localhost", port) for port in range(1, 100)))
    turns = 0
    while not lookups.done():
        await asyncio.sleep(0)
        turns += 1
    assert [found[0][4][1] for found in await lookups] == list(range(1, 100))
    assert turns > 1
