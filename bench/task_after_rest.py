"""What CPython itself needs for the first coroutine after a rest: to call it, to make its task and
to run it, without a loop, on a running thread that has the GIL.
"""

from __future__ import annotations

import asyncio
import contextvars
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.registry import Budget, require

#: As long as bench/erlang/round_trips.escript rests.
REST = 0.05


class _NoLoop:
    """Stores the one callback that a task schedules."""

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: contextvars.Context
    ) -> None:
        self.step = lambda: context.run(callback, *args)

    def get_debug(self) -> bool:
        return False


async def _increment(number: int) -> int:
    return number + 1


def measure(budget: Budget) -> float:
    """The median, in microseconds."""
    loop: Any = _NoLoop()
    taken = []
    for _ in range(max(3, round(budget.seconds / REST))):
        time.sleep(REST)
        began = time.perf_counter()
        task = asyncio.Task(_increment(7), loop=loop, name="increment")
        loop.step()
        reply = task.result()
        taken.append(time.perf_counter() - began)
        require(reply == 8, "a wrong reply: {}", reply)
    return statistics.median(taken) * 1e6
