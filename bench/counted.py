"""A fixed amount of work on ErlangEventLoop: NAME COUNT. counting.py counts its instructions."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
from collections.abc import Awaitable, Callable

from bench import steps

#: Done before counting: CPython specializes code that it has run a few times.
WARM = 200


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


async def timers(count: int) -> None:
    """All at once: the loop does not wait for any."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    past = loop.time() - 1
    for _ in range(count):
        loop.call_at(past, int)
    loop.call_at(past, done.set_result, None)
    await done


async def cancelled_timers(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        loop.call_later(60, print).cancel()


async def task_switches(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def tasks(count: int) -> None:
    async def nothing() -> None:
        pass

    for _ in range(count):
        await asyncio.create_task(nothing())


class _Echo(asyncio.Protocol):
    def __init__(self, count: int = 0) -> None:
        self.left = count
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.left -= 1
        if self.left:
            self.transport.write(data)
        else:
            self.done.set_result(None)


async def messages(count: int) -> None:
    """Of 1 KiB, back and forth between two transports."""
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    _, first = await loop.create_connection(_Echo, sock=one)
    _, second = await loop.create_connection(lambda: _Echo(-(-count // 2)), sock=other)
    second.transport.write(b"x" * 1024)
    await second.done
    first.transport.close()
    second.transport.close()


WORK: dict[str, Callable[[int], Awaitable[None]]] = {
    "callbacks": callbacks,
    "timers": timers,
    "cancelled_timers": cancelled_timers,
    "task_switches": task_switches,
    "tasks": tasks,
    "messages": messages,
}


async def main(name: str, count: str) -> None:
    work = WORK[name]
    await work(WARM)
    gc.collect()
    gc.disable()
    print(threading.get_native_id(), flush=True)
    sys.stdin.readline()
    steps.mark()
    await work(int(count))
    steps.mark()


if __name__ == "__main__":
    # Only here: the names of the work are wanted outside of a node, too.
    import erlang_loop

    erlang_loop.run(main(*sys.argv[1:]))
