"""Five mistakes that an asyncio program can make, for `misbehaves.escript` and docs/inside.md."""

import asyncio
import hashlib
from collections.abc import AsyncIterator


async def report() -> None:
    """Computes on the loop: no other task of it runs meanwhile."""
    while True:
        hashlib.pbkdf2_hmac("sha256", b"report", b"salt", 300_000)
        await asyncio.sleep(0.01)


async def save(order: int) -> None:
    await asyncio.sleep(0)
    print(f"order {order} is saved")


async def forget() -> None:
    """Lacks an `await`: the order is not saved."""
    save(7)  # type: ignore[unused-coroutine]


async def lose() -> None:
    """Starts a task and never asks for its result: the exception is lost."""
    task = asyncio.create_task(look_up("price"))
    await asyncio.wait([task])


async def look_up(key: str) -> int:
    return {"name": 1}[key]


async def wait() -> None:
    """Two tasks, each with a lock that the other one wants: they wait forever."""
    left, right = asyncio.Lock(), asyncio.Lock()

    async def take(first: asyncio.Lock, second: asyncio.Lock) -> None:
        async with first:
            await asyncio.sleep(0.01)
            async with second:
                print("never")

    async with asyncio.TaskGroup() as group:
        group.create_task(take(left, right), name="takes left")
        group.create_task(take(right, left), name="takes right")


async def rows() -> AsyncIterator[int]:
    """Its consumer takes three and forgets it: this stays open."""
    for row in range(1_000_000):
        yield row
