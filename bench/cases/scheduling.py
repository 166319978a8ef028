"""Callbacks: call_soon and call_soon_threadsafe."""

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
    """Each callback schedules the next: one callback a turn."""
    done = loop.create_future()
    end = budget.deadline()
    count = 0

    def step(expected: int) -> None:
        nonlocal count
        if count != expected:
            done.set_exception(AssertionError("a callback ran out of order"))
            return
        count += 1
        if count % 1000 or time.perf_counter() < end:
            loop.call_soon(step, count)
        else:
            done.set_result(None)

    began = begin()
    loop.call_soon(step, 0)
    await done
    return per_second(count, began)


@case("call_soon_burst", group=GROUP, unit="callbacks/s", checked=True)
async def call_soon_burst(loop: Loop, budget: Budget) -> Sample:
    """Ten thousand callbacks a turn."""
    size = budget.count(BURST)
    ran = scheduled = 0

    def count() -> None:
        nonlocal ran
        ran += 1

    end = budget.deadline()
    began = begin()
    while not scheduled or time.perf_counter() < end:
        for _ in range(size):
            loop.call_soon(count)
        scheduled += size
        await asyncio.sleep(0)
    sample = per_second(ran, began)
    require(ran == scheduled, f"{ran} of {scheduled} callbacks ran")
    return sample


@case("threadsafe_rate", group=GROUP, unit="callbacks/s", checked=True)
async def threadsafe_rate(loop: Loop, budget: Budget) -> Sample:
    """Another thread posts callbacks, as many as it can."""
    batch = budget.count(BURST)
    ran = posted = 0
    caught_up = threading.Event()
    done = asyncio.Event()

    def count() -> None:
        nonlocal ran
        ran += 1

    def post() -> None:
        nonlocal posted
        end = budget.deadline()
        while not posted or time.perf_counter() < end:
            for _ in range(batch):
                loop.call_soon_threadsafe(count)
            posted += batch
            loop.call_soon_threadsafe(caught_up.set)
            # So that the queue's length, and the memory for it, is bounded.
            caught_up.wait()
            caught_up.clear()
        loop.call_soon_threadsafe(done.set)

    thread = threading.Thread(target=post)
    began = begin()
    thread.start()
    await done.wait()
    sample = per_second(ran, began)
    thread.join()
    require(ran == posted, f"{ran} of {posted} callbacks ran")
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
