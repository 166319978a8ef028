"""What a loop costs while nothing happens: memory of connections and timers, CPU of waiting."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import time
from pathlib import Path

from bench import load_client
from bench.cases.tcp import KIB, Echo, address, all_closed, listen
from bench.registry import Budget, Loop, Sample, case, require

GROUP = "footprint"


def settled_memory() -> int:
    """Bytes that the process has in memory, without what it has freed."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@case("memory_connection", group=GROUP, unit="KiB", less_is_better=True)
async def memory_connection(loop: Loop, budget: Budget) -> Sample:
    """Memory per open server connection, with 1,000 open."""
    idle = budget.count(1000)
    server = await listen(loop, Echo)
    # One exchange first, which allocates what all connections share.
    await load_client.ask("echo", address(server), Budget(0.05), size=KIB)
    await all_closed(Echo)
    before = settled_memory()
    # One that sends for as long as the measurement takes, and the idle ones beside it.
    asked = asyncio.ensure_future(
        load_client.ask("echo", address(server), Budget(max(0.5, budget.seconds)), idle=idle)
    )
    # The event is the last connection_made.
    while Echo.open <= idle and not asked.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    used = settled_memory() - before
    require(not asked.done(), "there are {} connections instead of {}", Echo.open, idle + 1)
    await asked
    await all_closed(Echo)
    server.close()
    await server.wait_closed()
    return Sample(max(used, 1) / (idle + 1) / KIB)


@case("memory_timer", group=GROUP, unit="bytes", less_is_better=True)
async def memory_timer(loop: Loop, budget: Budget) -> Sample:
    """Memory per pending call_later, with 100,000 pending."""
    count = budget.count(100_000)

    def ring() -> None:
        pass

    # In a fresh process, without a warm-up, which would leave holes in the heap.
    before = settled_memory()
    handles = [loop.call_later(3600 + number, ring) for number in range(count)]
    used = settled_memory() - before
    for handle in handles:
        handle.cancel()
    return Sample(max(used, 1) / count)


@case("idle_cpu", group=GROUP, unit="ms CPU a second", less_is_better=True, counts=False)
async def idle_cpu(loop: Loop, budget: Budget) -> Sample:
    """CPU time of the whole process while its loop waits for a connection and a distant timer."""
    server = await listen(loop, Echo)
    far = loop.call_later(3600, print)
    # Wait for the start to end: a new process, a VM in particular, is not idle yet.
    await asyncio.sleep(25 * budget.seconds)
    before, began = time.process_time(), time.perf_counter()
    # 15 s in the full form: a VM adjusts its clocks at this interval, once in every window.
    await asyncio.sleep(max(0.02, 30 * budget.seconds))
    used, passed = time.process_time() - before, time.perf_counter() - began
    far.cancel()
    server.close()
    await server.wait_closed()
    return Sample(used / passed * 1000)
