"""call_later and sleep. As in scheduling.py, the callbacks do next to nothing."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import replace

from bench.registry import Budget, Loop, Sample, begin, case, per_second, require

GROUP = "timers"


def mixed_delays(count: int) -> list[float]:
    """So many within a millisecond, in random order."""
    delays = [number / count / 1000 for number in range(count)]
    random.Random(count).shuffle(delays)
    return delays


async def schedule_and_run(loop: Loop, delays: list[float]) -> None:
    done = loop.create_future()
    left = len(delays)

    def ring() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set_result(None)

    call_later = loop.call_later
    for delay in delays:
        call_later(delay, ring)
    await done


async def earliest(loop: Loop, delays: list[float]) -> float:
    """How early the earliest of such timers runs, in microseconds."""
    done = loop.create_future()
    left = len(delays)
    early = 0.0

    def ring(when: float) -> None:
        nonlocal left, early
        early = max(early, when - loop.time())
        left -= 1
        if left == 0:
            done.set_result(None)

    for delay in delays:
        when = loop.time() + delay
        loop.call_at(when, ring, when)
    await done
    return early * 1e6


@case("timers_many", group=GROUP, unit="timers/s", checked=True)
async def timers_many(loop: Loop, budget: Budget) -> Sample:
    """Batches of 10,000 timers, scheduled in random order; all of them run."""
    delays = mixed_delays(budget.count(10_000))
    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        await schedule_and_run(loop, delays)
        count += len(delays)
    sample = per_second(count, began)
    return replace(sample, more={"early_us": await earliest(loop, delays[:1000])})


@case("timers_million", group=GROUP, unit="timers/s", full_only=True)
async def timers_million(loop: Loop, budget: Budget) -> Sample:
    """A million timers at once, in random order; all of them run."""
    delays = mixed_delays(budget.count(1_000_000))
    began = begin()
    await schedule_and_run(loop, delays)
    return per_second(len(delays), began)


@case("timer_cancel", group=GROUP, unit="timers/s", checked=True)
async def timer_cancel(loop: Loop, budget: Budget) -> Sample:
    """Timers scheduled and then cancelled, 1,000 pending at a time, as for timeouts."""
    size = budget.count(1000)
    ran = 0

    def ring() -> None:
        nonlocal ran
        ran += 1

    call_later = loop.call_later
    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        handles = [call_later(60, ring) for _ in range(size)]
        for handle in handles:
            handle.cancel()
        count += size
        await asyncio.sleep(0)
    sample = per_second(count, began)
    require(all(handle.cancelled() for handle in handles), "a timer is not cancelled")
    require(ran == 0, "{} cancelled timers ran", ran)
    return sample


@case("sleep_1ms", group=GROUP, unit="us late", less_is_better=True)
async def sleep_1ms(loop: Loop, budget: Budget) -> Sample:
    """How far a sleep of 1 ms is off, late or early; the median."""
    off: list[float] = []
    end = budget.deadline()
    while not off or time.perf_counter() < end:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        off.append((time.perf_counter() - began - 0.001) * 1e6)
    early = max(0.0, -min(off))
    return Sample(statistics.median(map(abs, off)), more={"early_us": early})
