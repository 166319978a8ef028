"""What py_profile_SUITE and py_browser_SUITE look at: two functions, and what they took."""

import asyncio
import sys
import time

import called

_took = {"seventy": 0.0, "thirty": 0.0}


def spin(name: str, until: float) -> None:
    """Until it has taken that long in all. Other programs may take the processor meanwhile."""
    before = _took[name]
    began = now = time.perf_counter()
    while before + now - began < until:
        sum(range(50))
        now = time.perf_counter()
    _took[name] += now - began


def seventy() -> None:
    spin("seventy", _took["thirty"] * 7 / 3 + 0.007)


def thirty() -> None:
    spin("thirty", _took["seventy"] * 3 / 7)


def totals() -> tuple[float, float]:
    """What both have taken since the beginning."""
    return _took["seventy"], _took["thirty"]


def both() -> None:
    while not called._release.is_set():
        seventy()
        thirty()


async def both_later() -> None:
    while not called._release.is_set():
        seventy()
        thirty()
        await asyncio.sleep(0)


async def both_later_at_once() -> None:
    both()


async def named(name: str) -> None:
    await asyncio.create_task(both_later(), name=name)


def without_release(count: int) -> int:
    """One call into C, which keeps the GIL."""
    return sum(range(count))


async def spin_later(count: int) -> int:
    return without_release(count)


async def deep(depth: int) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 1000)
    try:
        descend(depth)
    finally:
        sys.setrecursionlimit(limit)


def descend(depth: int) -> None:
    if depth:
        descend(depth - 1)
    else:
        called._release.wait()
