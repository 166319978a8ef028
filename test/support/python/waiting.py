"""Tasks that wait, several awaits deep: for `py_status_SUITE`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator

import called
import erlang


class Awaitable:
    def __await__(self) -> Generator[object, None, None]:
        yield from innermost().__await__()


async def innermost() -> None:
    await asyncio.sleep(3600)


async def items() -> AsyncIterator[int]:
    await Awaitable()
    yield 1


async def middle() -> None:
    async for _ in items():
        pass


async def outermost() -> None:
    await middle()


async def deep(depth: int) -> None:
    if depth == 0:
        await innermost()
    else:
        await deep(depth - 1)


async def parent(process: erlang.Pid) -> None:
    """A task that waits for another one."""
    child = asyncio.create_task(innermost(), name="the child")
    await asyncio.sleep(0)
    erlang.send(process, erlang.Atom("waits"))
    await child


async def blocks() -> None:
    await blocked()


async def blocked() -> None:
    called.block()


_running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []


def run_a_loop() -> None:
    """A loop that Python starts, on a call thread."""

    async def main() -> None:
        task = asyncio.create_task(outermost())
        _running.append((asyncio.get_running_loop(), task))
        called.note("runs")
        await asyncio.wait([task])

    asyncio.run(main())


def end_that_loop() -> None:
    loop, task = _running.pop()
    loop.call_soon_threadsafe(task.cancel)


async def tell_thread(process: erlang.Pid) -> None:
    erlang.send(process, (erlang.Atom("runs_on"), await called.loop_thread()))
