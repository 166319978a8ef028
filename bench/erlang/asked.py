"""What Erlang calls in round_trips.escript."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

notes = 0


def increment(number: int) -> int:
    return number + 1


async def increment_later(number: int) -> int:
    return number + 1


async def increment_in_a_turn(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


def note() -> None:
    """Called by casts, which have no reply: the benchmark calls `noted`."""
    global notes
    notes += 1


def noted() -> int:
    return notes


_computing = True


def compute() -> int:
    """Endless Python code, until `stop_computing`."""
    steps = 0
    while _computing:
        steps += 1
    return steps


def stop_computing() -> bool:
    global _computing
    _computing = False
    return True


async def count_to(end: int) -> AsyncIterator[int]:
    for number in range(end):
        yield number
