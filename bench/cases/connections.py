"""Connections that open and close, and many that are idle."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from bench import load_client
from bench.cases.tcp import KIB, Echo, address, all_closed, bare, listen, serve_echo
from bench.registry import Budget, Loop, Sample, begin, case, per_second, require

GROUP = "connections"


@case(
    "churn",
    group=GROUP,
    unit="connections/s",
    bare=bare("churn", connections=10, size=KIB),
    checked=True,
)
async def churn(loop: Loop, budget: Budget) -> Sample:
    """Connect, one request, close; 10 at a time."""
    return await serve_echo(loop, budget, Echo, "churn", connections=10, size=KIB)


@case(
    "churn_reset",
    group=GROUP,
    unit="connections/s",
    bare=bare("churn", connections=10, size=KIB, reset=True),
)
async def churn_reset(loop: Loop, budget: Budget) -> Sample:
    """Nine of ten connections are reset before they get a reply."""
    return await serve_echo(loop, budget, Echo, "churn", connections=10, size=KIB, reset=True)


@case(
    "accept_busy",
    group=GROUP,
    unit="connections/s",
    bare=bare("churn", connections=10, size=KIB, busy=100),
    checked=True,
)
async def accept_busy(loop: Loop, budget: Budget) -> Sample:
    """Connections are opened and closed while 100 others keep echoing."""
    return await serve_echo(loop, budget, Echo, "churn", connections=10, size=KIB, busy=100)


@case("idle_1000", group=GROUP, unit="of the rate without", counts=False)
async def idle_1000(loop: Loop, budget: Budget) -> Sample:
    """10 busy connections beside 1,000 idle ones, compared with the 10 alone."""
    server = await listen(loop, Echo)
    part = replace(budget, seconds=budget.seconds / 2)
    rates = {0: 0.0, 1000: 0.0}
    # In turns, so that other load of the machine affects both.
    for crowd in (0, 1000, 1000, 0):
        sample = await load_client.ask(
            "echo", address(server), part, connections=10, size=KIB, idle=crowd
        )
        rates[crowd] += sample.value
    await all_closed(Echo)
    server.close()
    await server.wait_closed()
    return Sample(rates[1000] / rates[0])


class Greeter(asyncio.Protocol):
    """The client's side: sends, and closes after the reply."""

    def __init__(self, message: bytes, answered: asyncio.Future[None]) -> None:
        self.message = message
        self.received = b""
        self.answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self.message)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) == len(self.message):
            self.answered.set_result(None)


@case("client_connect", group=GROUP, unit="connections/s", checked=True)
async def client_connect(loop: Loop, budget: Budget) -> Sample:
    """create_connection to the bare server, one request, close; 10 at a time."""
    end = budget.deadline()
    message = b"hello" * 20
    count = 0

    async def connect(port: int) -> None:
        nonlocal count
        while not count or time.perf_counter() < end:
            answered: asyncio.Future[None] = loop.create_future()
            transport, protocol = await loop.create_connection(
                lambda answered=answered: Greeter(message, answered),  # type: ignore[misc]
                "127.0.0.1",
                port,
            )
            await answered
            require(protocol.received == message, "the reply is not what was sent")
            transport.close()
            count += 1

    with load_client.bare_server("tcp:127.0.0.1:0") as (server, _pid):
        port = int(server.rpartition(":")[2])
        began = begin()
        await asyncio.gather(*(connect(port) for _ in range(10)))
        return per_second(count, began)
