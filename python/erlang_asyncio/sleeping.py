"""Sleeping."""

from __future__ import annotations

import asyncio
import math
from typing import TypeVar, overload

T = TypeVar("T")


@overload
async def sleep(delay: float) -> None: ...


@overload
async def sleep(delay: float, result: T) -> T: ...


async def sleep(delay: float, result: T | None = None) -> T | None:
    """Sleep for at least `delay` seconds and return `result`. Other tasks run meanwhile.

    On an ErlangEventLoop this is a timer of that loop: the Erlang VM holds one `send_after` for
    the first deadline of a sleeping loop, and nothing polls. On another loop it is that loop's
    timer. A delay of 0 or less lets other tasks run once.
    """
    if math.isnan(delay):
        # asyncio raises this from Python 3.13 on; before, such a sleep may never end.
        raise ValueError("Invalid delay: NaN (not a number)")
    return await asyncio.sleep(delay, result)
