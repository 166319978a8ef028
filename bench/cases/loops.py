"""Loops themselves: making and closing them, and one in each of many threads."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time

from bench.registry import Budget, Factory, Sample, begin, case, per_second, require

GROUP = "processes"


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@case("loop_create", group=GROUP, unit="loops/s", kind="factory")
def loop_create(factory: Factory, budget: Budget) -> Sample:
    """A loop is created, runs one coroutine and is closed."""

    async def reply() -> int:
        return 42

    def live() -> None:
        loop = factory()
        got = loop.run_until_complete(reply())
        loop.close()
        require(got == 42, "{} instead of 42", got)

    live()
    gc.collect()
    before = open_fds()
    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        live()
        count += 1
    sample = per_second(count, began)
    gc.collect()
    left = open_fds() - before
    require(left <= count // 10, "{} fds are left of {} closed loops", left, count)
    return sample


@case("threads_50", group=GROUP, unit="round trips/s", kind="factory")
def threads_50(factory: Factory, budget: Budget) -> Sample:
    """50 threads with a loop each; two tasks per loop exchange messages over a socket pair."""
    size = budget.count(50)
    counts = [0] * size
    problems: list[BaseException] = []
    together = threading.Barrier(size + 1)

    async def play(number: int) -> None:
        loop = asyncio.get_running_loop()
        one, other = socket.socketpair()
        one.setblocking(False)
        other.setblocking(False)

        async def echo() -> None:
            while data := await loop.sock_recv(other, 100):
                await loop.sock_sendall(other, data)

        task = asyncio.ensure_future(echo())
        end = budget.deadline()
        message = str(number).encode()
        while not counts[number] or time.perf_counter() < end:
            await loop.sock_sendall(one, message)
            reply = await loop.sock_recv(one, 100)
            require(reply == message, "{!r} instead of {!r}", reply, message)
            counts[number] += 1
        one.close()
        await task
        other.close()

    def live(number: int) -> None:
        loop = factory()
        try:
            together.wait()
            loop.run_until_complete(play(number))
        except BaseException as problem:
            problems.append(problem)
        finally:
            loop.close()

    threads = [threading.Thread(target=live, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    together.wait()
    began = begin()
    for thread in threads:
        thread.join()
    sample = per_second(sum(counts), began)
    if problems:
        raise problems[0]
    return sample
