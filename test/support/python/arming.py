"""Loops on Python's threads that park in every wait. py_arming_SUITE calls it."""

from __future__ import annotations

import asyncio
import os

from erlang_loop import ErlangEventLoop


def take_bytes(fd: int, count: int, isolated: bool) -> int:
    """Runs a loop in this thread until it has read this many bytes, waiting for each."""
    loop = ErlangEventLoop(isolated=isolated, spin=0.0, direct_wait=0.0)
    taken = 0

    async def take() -> None:
        nonlocal taken
        while taken < count:
            readable = loop.create_future()
            loop.add_reader(fd, readable.set_result, None)
            try:
                await asyncio.shield(readable)
            finally:
                loop.remove_reader(fd)
            taken += len(os.read(fd, 1))

    try:
        loop.run_until_complete(take())
    finally:
        loop.close()
    return taken
