"""Tasks, futures and the executor."""

from __future__ import annotations

import asyncio
import statistics
import time

from bench.registry import Budget, Loop, Sample, begin, case, per_second, require

GROUP = "tasks"


@case("task_switch", group=GROUP, unit="switches/s", checked=True)
async def task_switch(loop: Loop, budget: Budget) -> Sample:
    """Ten tasks that yield to each other with sleep(0)."""
    end = budget.deadline()
    counts = [0] * 10

    async def switch(number: int) -> None:
        while not counts[number] or time.perf_counter() < end:
            for _ in range(100):
                await asyncio.sleep(0)
            counts[number] += 100

    began = begin()
    await asyncio.gather(*map(switch, range(10)))
    sample = per_second(sum(counts), began)
    require(max(counts) - min(counts) <= 100, "the tasks did not take turns: {}", counts)
    return sample


@case("create_task", group=GROUP, unit="tasks/s", checked=True)
async def create_task(loop: Loop, budget: Budget) -> Sample:
    """A task is created and awaited."""

    async def reply(number: int) -> int:
        return number

    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        for _ in range(100):
            got = await loop.create_task(reply(count))
            require(got == count, "{} instead of {}", got, count)
            count += 1
    return per_second(count, began)


@case("gather_100", group=GROUP, unit="gathers/s", checked=True)
async def gather_100(loop: Loop, budget: Budget) -> Sample:
    """gather of a hundred coroutines that each yield once."""

    async def reply(number: int) -> int:
        await asyncio.sleep(0)
        return number

    end = budget.deadline()
    expected = list(range(100))
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        replies = await asyncio.gather(*map(reply, expected))
        require(replies == expected, "gather mixed up its replies")
        count += 1
    return per_second(count, began)


@case("executor", group=GROUP, unit="jobs/s")
async def executor(loop: Loop, budget: Budget) -> Sample:
    """run_in_executor, ten jobs at a time."""

    def double(number: int) -> int:
        return 2 * number

    end = budget.deadline()
    numbers = list(range(10))
    expected = [2 * number for number in numbers]
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        jobs = [loop.run_in_executor(None, double, number) for number in numbers]
        require(await asyncio.gather(*jobs) == expected, "the executor mixed up its replies")
        count += len(numbers)
    sample = per_second(count, began)
    await loop.shutdown_default_executor()
    return sample


# Does not count: most of it is CPython's code in cold caches, whatever the loop. It is what
# `after_idle`, the same asked by Erlang, is to be read against.
@case("after_idle_thread", group=GROUP, unit="us", less_is_better=True, counts=False)
async def after_idle_thread(loop: Loop, budget: Budget) -> Sample:
    """run_coroutine_threadsafe after 50 ms idle, until its thread has the result; the median."""

    async def increment(number: int) -> int:
        return number + 1

    def ask() -> float:
        # As `after_idle` of Erlang's processes: the loop sleeps, and the CPU's caches are cold.
        time.sleep(0.05)
        began = time.perf_counter()
        reply = asyncio.run_coroutine_threadsafe(increment(7), loop).result()
        taken = time.perf_counter() - began
        require(reply == 8, "a wrong reply: {}", reply)
        return taken

    count = budget.count(40)
    taken = await loop.run_in_executor(None, lambda: [ask() for _ in range(count)])
    await loop.shutdown_default_executor()
    return Sample(statistics.median(taken) * 1e6)
