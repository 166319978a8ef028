"""TCP echo servers: protocols of several kinds, by number of connections and size of messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench import load_client
from bench.registry import BareCase, Budget, Loop, Sample, case, require

GROUP = "network"
BACKLOG = 4096
KIB = 1024
#: The pieces of one reply in `writes_16_c10`.
PIECES = 16


class Counted(asyncio.BaseProtocol):
    """Counts its connections, so that a case can check that all of them ended."""

    open = 0
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        type(self).open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        type(self).open -= 1


class Echo(Counted, asyncio.Protocol):
    """Echoes what it receives."""

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class PiecewiseEcho(Echo):
    """Replies in many writes, as programs do that write header and body separately."""

    def data_received(self, data: bytes) -> None:
        step = max(1, len(data) // PIECES)
        for start in range(0, len(data), step):
            self.transport.write(data[start : start + step])


class BufferedEcho(Counted, asyncio.BufferedProtocol):
    """Receives the data into its own buffer.

    It has no `data_received`: uvloop would call that instead.
    """

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(64 * KIB))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(bytes(self.buffer[:nbytes]))


async def all_closed(protocol: type[Counted]) -> None:
    """Every connection gets its connection_lost, soon after the client is gone."""
    for _ in range(1000):
        if protocol.open == 0:
            return
        await asyncio.sleep(0.005)  # The event is the last connection_lost, if it comes.
    require(False, "{} connections did not end", protocol.open)


async def listen(loop: Loop, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
    return await loop.create_server(protocol, "127.0.0.1", 0, backlog=BACKLOG)


def address(server: asyncio.Server) -> str:
    return f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def serve_echo(
    loop: Loop, budget: Budget, protocol: type[Counted], mode: str = "echo", **options: object
) -> Sample:
    server = await listen(loop, protocol)
    try:
        sample = await load_client.ask(mode, address(server), budget, **options)
        await all_closed(protocol)
    finally:
        server.close()
        await server.wait_closed()
    return sample


def bare(mode: str = "echo", kind: str = "tcp:127.0.0.1:0", **options: object) -> BareCase:
    """The same load on the server without a loop."""

    def run(budget: Budget) -> Sample:
        with load_client.bare_server(kind) as (server, pid):
            return load_client.run(mode, server, budget, pid=pid, **options)

    return run


def add_echo(
    name: str,
    what: str,
    *,
    protocol: type[Counted] = Echo,
    size: int,
    connections: int,
    checked: bool,
) -> None:
    async def run(loop: Loop, budget: Budget) -> Sample:
        return await serve_echo(loop, budget, protocol, connections=connections, size=size)

    run.__doc__ = what
    rival = bare(connections=connections, size=size)
    case(name, group=GROUP, unit="requests/s", bare=rival, checked=checked)(run)


for number in (1, 10, 100, 1000):
    add_echo(
        f"tcp_1k_c{number}",
        f"Echo of 1 KiB, {number:,} connection{'s' * (number > 1)}.",
        size=KIB,
        connections=number,
        checked=number in (10, 100),
    )
add_echo(
    "tcp_64k_c10", "Echo of 64 KiB, 10 connections.", size=64 * KIB, connections=10, checked=True
)
add_echo(
    "writes_16_c10",
    "Echo of 1 KiB in 16 writes, 10 connections.",
    protocol=PiecewiseEcho,
    size=KIB,
    connections=10,
    checked=True,
)
add_echo(
    "buffered_1k_c100",
    "Echo of 1 KiB with a BufferedProtocol, 100 connections.",
    protocol=BufferedEcho,
    size=KIB,
    connections=100,
    checked=True,
)
add_echo(
    "buffered_64k_c10",
    "Echo of 64 KiB with a BufferedProtocol, 10 connections.",
    protocol=BufferedEcho,
    size=64 * KIB,
    connections=10,
    checked=False,
)
