"""Clients of databases. The servers run beside the loops; rounds.py starts them (servers.py)."""

from __future__ import annotations

import asyncio
import os
import time

from bench.cases.web import needs
from bench.registry import Budget, Loop, Sample, Unavailable, begin, case, per_second, require

GROUP = "stacks"


def server(variable: str, name: str) -> str:
    """Where it is."""
    place = os.environ.get(variable)
    if not place:
        raise Unavailable(f"no {name} runs here")
    return place


@case("redis", group=GROUP, unit="commands/s")
async def redis(loop: Loop, budget: Budget) -> Sample:
    """SET and GET with redis-py over a Unix socket, 10 tasks with a connection each."""
    place = server("BENCH_REDIS", "Redis")
    needs("redis")
    from redis.asyncio import Redis

    clients = [Redis(unix_socket_path=place) for _ in range(10)]
    # Connecting is not what is measured.
    for client in clients:
        require(await client.ping(), "Redis does not reply")
    end = budget.deadline()
    count = 0

    async def ask(number: int) -> None:
        nonlocal count
        client = clients[number]
        while not count or time.perf_counter() < end:
            value = f"{number} {count}".encode()
            await client.set(f"bench {number}", value)
            got = await client.get(f"bench {number}")
            require(got == value, "{!r} instead of {!r}", got, value)
            count += 2

    began = begin()
    await asyncio.gather(*map(ask, range(10)))
    sample = per_second(count, began)
    for client in clients:
        await client.aclose()
    return sample


@case("asyncpg", group=GROUP, unit="queries/s")
async def asyncpg(loop: Loop, budget: Budget) -> Sample:
    """Prepared queries with asyncpg over a Unix socket, 10 tasks with a connection each."""
    place = server("BENCH_POSTGRES", "PostgreSQL")
    needs("asyncpg")
    import asyncpg

    # Connecting forks a process in the server: not what is measured.
    connections = [
        await asyncpg.connect(host=place, user="test", database="postgres") for _ in range(10)
    ]
    queries = [await connection.prepare("select $1::int + 1") for connection in connections]
    end = budget.deadline()
    count = 0

    async def ask(number: int) -> None:
        nonlocal count
        while not count or time.perf_counter() < end:
            got = await queries[number].fetchval(number)
            require(got == number + 1, "{!r} instead of {}", got, number + 1)
            count += 1

    began = begin()
    await asyncio.gather(*map(ask, range(10)))
    sample = per_second(count, began)
    for connection in connections:
        await connection.close()
    return sample
