"""Callbacks: call_soon and call_soon_threadsafe.

The time that a case takes itself is part of every loop's figure, and hides their differences. So
the callbacks do next to nothing, and results are compared all at once.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

from bench.registry import Budget, Loop, Sample, begin, case, per_second, require

GROUP = "scheduling"
BURST = 10_000


@case("call_soon_chain", group=GROUP, unit="callbacks/s", checked=True)
async def call_soon_chain(loop: Loop, budget: Budget) -> Sample:
    """Each callback schedules the next: one callback per turn."""
    size = budget.count(2000)
    call_soon = loop.call_soon
    left = 0

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            call_soon(step)
        else:
            done.set_result(None)

    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        done = loop.create_future()
        left = size
        call_soon(step)
        await done
        count += size
    return per_second(count, began)


@case("call_soon_burst", group=GROUP, unit="callbacks/s", checked=True)
async def call_soon_burst(loop: Loop, budget: Budget) -> Sample:
    """Ten thousand callbacks per turn."""
    expected = list(range(budget.count(BURST)))
    call_soon = loop.call_soon
    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        ran: list[int] = []
        append = ran.append
        for number in expected:
            call_soon(append, number)
        await asyncio.sleep(0)
        require(ran == expected, "callbacks are missing, or ran out of order")
        count += len(ran)
    return per_second(count, began)


@case("threadsafe_rate", group=GROUP, unit="callbacks/s", checked=True)
async def threadsafe_rate(loop: Loop, budget: Budget) -> Sample:
    """Another thread posts callbacks as fast as it can."""
    expected = list(range(budget.count(BURST)))
    ran: list[int] = []
    count = 0
    in_order = True
    caught_up = threading.Event()
    done = asyncio.Event()

    def post() -> None:
        nonlocal count, in_order
        post_soon, append = loop.call_soon_threadsafe, ran.append
        end = budget.deadline()
        while not count or time.perf_counter() < end:
            for number in expected:
                post_soon(append, number)
            post_soon(caught_up.set)
            # So that the queue's length, and the memory for it, is bounded.
            caught_up.wait()
            caught_up.clear()
            in_order = in_order and ran == expected
            count += len(ran)
            ran.clear()
        post_soon(done.set)

    thread = threading.Thread(target=post)
    began = begin()
    thread.start()
    await done.wait()
    sample = per_second(count, began)
    thread.join()
    require(in_order, "callbacks are missing, or ran out of order")
    return sample


@case("threadsafe_latency", group=GROUP, unit="us", less_is_better=True)
async def threadsafe_latency(loop: Loop, budget: Budget) -> Sample:
    """From call_soon_threadsafe in another thread until the sleeping loop runs it; the median."""
    taken: list[float] = []
    arrived = threading.Event()
    done = asyncio.Event()

    def arrive(posted: float) -> None:
        taken.append(time.perf_counter() - posted)
        arrived.set()

    def post() -> None:
        end = budget.deadline()
        while not taken or time.perf_counter() < end:
            # The loop, and the core it was on, have gone to sleep by then.
            time.sleep(0.001)
            arrived.clear()
            loop.call_soon_threadsafe(arrive, time.perf_counter())
            arrived.wait()
        loop.call_soon_threadsafe(done.set)

    thread = threading.Thread(target=post)
    thread.start()
    await done.wait()
    thread.join()
    return Sample(statistics.median(taken) * 1e6)
