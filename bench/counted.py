"""A fixed amount of work on ErlangEventLoop: NAME COUNT. counting.py counts its instructions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable


async def callbacks(count: int) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def step(left: int) -> None:
        if left:
            loop.call_soon(step, left - 1)
        else:
            done.set_result(None)

    step(count)
    await done


async def cancelled_timers(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        loop.call_later(60, print).cancel()


async def task_switches(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


WORK: dict[str, Callable[[int], Awaitable[None]]] = {
    "callbacks": callbacks,
    "cancelled_timers": cancelled_timers,
    "task_switches": task_switches,
}


async def main(name: str, count: str) -> None:
    await WORK[name](int(count))


if __name__ == "__main__":
    # Only here: the names of the work are wanted outside of a node, too.
    import erlang_loop

    erlang_loop.run(main(*sys.argv[1:]))
