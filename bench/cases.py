"""What is measured. Each case runs on a fresh loop for about `seconds` and answers a number."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

Case = Callable[[float], Awaitable[float]]
CASES: dict[str, tuple[str, Case]] = {}

CONNECTIONS = 10
SIZE = 1024


def case(unit: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[function.__name__] = (unit, function)
        return function

    return add


@case("callbacks/s")
async def call_soon_chain(seconds: float) -> float:
    """Each callback schedules the next: one callback a turn."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    end = time.perf_counter() + seconds
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count % 1000 or time.perf_counter() < end:
            loop.call_soon(step)
        else:
            done.set_result(None)

    started = time.perf_counter()
    step()
    await done
    return count / (time.perf_counter() - started)


@case("callbacks/s")
async def call_soon_burst(seconds: float) -> float:
    """Ten thousand callbacks a turn."""
    loop = asyncio.get_running_loop()
    count = 0

    def nothing() -> None:
        pass

    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for _ in range(10_000):
            loop.call_soon(nothing)
        count += 10_000
        await asyncio.sleep(0)
    return count / (time.perf_counter() - started)


@case("timers/s")
async def timers_cancelled(seconds: float) -> float:
    """Time-outs that are not needed: scheduled and cancelled."""
    loop = asyncio.get_running_loop()
    count = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        handles = [loop.call_later(60, print) for _ in range(1000)]
        for handle in handles:
            handle.cancel()
        count += 1000
    return count / (time.perf_counter() - started)


@case("switches/s")
async def task_switches(seconds: float) -> float:
    """Ten tasks that yield to each other."""
    count = 0
    started = time.perf_counter()

    async def yields() -> None:
        nonlocal count
        while time.perf_counter() - started < seconds:
            for _ in range(100):
                await asyncio.sleep(0)
            count += 100

    await asyncio.gather(*(yields() for _ in range(10)))
    return count / (time.perf_counter() - started)


@case("us late (less is better)")
async def sleep_1ms(seconds: float) -> float:
    """How late a sleep of 1 ms ends; the median."""
    late = []
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - began - 0.001) * 1e6)
    return sorted(late)[len(late) // 2]


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


@case("requests/s")
async def tcp_echo(seconds: float) -> float:
    """1 KiB to a server and back on ten connections; the client is a process of its own."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Path(__file__).with_name("echo_client.py")
    command = (sys.executable, client, str(port), str(CONNECTIONS), str(SIZE), str(seconds))
    asked = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    server.close()
    await server.wait_closed()
    return float(asked.stdout)
