"""What py_soak_SUITE and py_leaks_SUITE load: servers, generators, coroutines to cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import erlang_loop

_servers: list[asyncio.AbstractServer] = []


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Keeps the connection, and answers each request with its path."""
    try:
        while True:
            request = await reader.readuntil(b"\r\n\r\n")
            body = request.split(b" ", 2)[1]
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def start_servers() -> tuple[int, int]:
    """The ports for echo and for HTTP."""
    loop = asyncio.get_running_loop()
    echo = await loop.create_server(Echo, "127.0.0.1", 0, backlog=1024)
    http = await asyncio.start_server(answer_http, "127.0.0.1", 0)
    _servers.extend([echo, http])
    return echo.sockets[0].getsockname()[1], http.sockets[0].getsockname()[1]


async def stop_servers() -> None:
    while _servers:
        _servers.pop().close()


async def count_later(limit: int) -> AsyncIterator[int]:
    for number in range(limit):
        if number % 10 == 0:
            await asyncio.sleep(0)
        yield number


def count(limit: int) -> Iterator[int]:
    yield from range(limit)


async def wait_long() -> None:
    await asyncio.sleep(3600)


async def timers(count: int) -> int:
    """That many timers, half of them cancelled; how many fired."""
    loop = asyncio.get_running_loop()
    fired = 0
    done = loop.create_future()
    wanted = (count + 1) // 2

    def fire() -> None:
        nonlocal fired
        fired += 1
        if fired == wanted:
            done.set_result(None)

    for number in range(count):
        handle = loop.call_later(number % 20 / 1000, fire)
        if number % 2:
            handle.cancel()
    await done
    return fired


async def connections(port: int, count: int) -> int:
    """That many, one after another on 20 tracks; how many were echoed to the byte."""
    counts = await asyncio.gather(*(_track(port, count // 20) for _ in range(20)))
    return sum(counts)


async def _track(port: int, count: int) -> int:
    right = 0
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        message = b"%d" % number * 10
        writer.write(message)
        right += await reader.readexactly(len(message)) == message
        writer.close()
        await writer.wait_closed()
    return right


def loops(count: int) -> int:
    """That many, one after another, each used."""
    for _ in range(count):
        loop = erlang_loop.new_event_loop()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    return count


async def at_once(port: int, count: int) -> int:
    """That many connections, all open before the first is used; how many echoed three messages."""
    gate = asyncio.Semaphore(500)
    everyone = [asyncio.ensure_future(_open(port, gate)) for _ in range(count)]
    streams = [await opened for opened in everyone]
    counts = await asyncio.gather(*(_three(*stream) for stream in streams))
    for _reader, writer in streams:
        writer.close()
    return sum(counts)


async def beyond_the_limit(port: int, count: int) -> int:
    """That many connections to a server that has fds for fewer. Those that are served leave, then
    the others must be. How many were served at first.
    """
    everyone = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    asked = {asyncio.ensure_future(_three(*stream)): stream for stream in everyone}
    # The server takes connections in the order of their coming: it has all it can when the
    # one that is served last has been, and no other after it.
    served: set[asyncio.Future[bool]] = set()
    waiting = set(asked)
    while waiting:
        done, waiting = await asyncio.wait(waiting, timeout=0.5)
        if done:
            served |= done
        elif served:
            break
    first = len(served)
    while asked:
        for task in served:
            assert task.result()
            asked.pop(task)[1].close()
        if asked:
            served, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    return first


async def report_an_error() -> None:
    """To the loop's exception handler, which logs it."""
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)


async def _open(
    port: int, gate: asyncio.Semaphore
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with gate:
        return await asyncio.open_connection("127.0.0.1", port)


async def _three(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    right = True
    for number in range(3):
        message = b"message %d" % number
        writer.write(message)
        right = right and await reader.readexactly(len(message)) == message
    return right
