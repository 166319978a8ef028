"""The Python half of `make run`: coroutines, and an echo server with its clients, on one loop.

Called by examples/tour.escript on Python's main thread; answers what it has to show.
"""

from __future__ import annotations

import asyncio
import time

import erlang_loop

CLIENTS = 100
MESSAGES = 20


def coroutines() -> str:
    """Three sleeps at the same time take as long as one."""

    async def sleep(name: str) -> str:
        await asyncio.sleep(0.05)
        return name

    async def main() -> list[str]:
        return await asyncio.gather(sleep("a"), sleep("b"), sleep("c"))

    began = time.perf_counter()
    names = erlang_loop.run(main())
    took = (time.perf_counter() - began) * 1000
    if names != ["a", "b", "c"] or not 50 <= took < 150:
        raise RuntimeError(f"{names} in {took:.1f} ms")
    return f"{len(names)} coroutines that sleep 50 ms each: done in {took:.0f} ms"


def echo() -> str:
    """Many clients of one echo server; every byte is checked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async def ask(port: int, client: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(MESSAGES):
            question = f"client {client}, message {number}\n".encode()
            writer.write(question)
            if await reader.readline() != question:
                raise RuntimeError(f"a wrong reply to {question!r}")
        writer.close()
        await writer.wait_closed()
        return MESSAGES

    async def main() -> int:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return sum(await asyncio.gather(*(ask(port, client) for client in range(CLIENTS))))

    began = time.perf_counter()
    count = erlang_loop.run(main())
    took = time.perf_counter() - began
    return f"{CLIENTS} clients of an echo server: {count} messages and replies in {took:.2f} s"
