"""Do the benchmarks run? Every case once, tiny, on ErlangEventLoop. No time is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import bench.cases  # noqa: F401  fills the registry
from bench import load_client, servers
from bench.registry import CASES, Budget, WrongReply
from bench.worker import measure

TINY = Budget(seconds=0.01, scale=0.01)
#: What this process can run; the others are programs of their own (test_bench_run.py).
HERE = [case.name for case in CASES.values() if case.kind in ("loop", "factory")]
WITHOUT_A_LOOP = [case.name for case in CASES.values() if case.bare]


@pytest.fixture(scope="module", autouse=True)
def native_client() -> None:
    load_client.build()


@pytest.fixture(scope="module", autouse=True)
def databases() -> Iterator[None]:
    with servers.running():
        yield


@pytest.mark.parametrize("name", HERE)
def test_case(name):
    sample = measure(name, "erlang_loop", TINY)
    assert sample.value > 0
    if CASES[name].bare:
        assert sample.cpu_us > 0


@pytest.mark.parametrize("name", WITHOUT_A_LOOP)
def test_bare_server(name):
    assert measure(name, "bare", TINY).value > 0


class Liar(asyncio.Protocol):
    """Echoes, but for one byte."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data[:-1] + bytes([data[-1] ^ 1]))


class Sleeper(asyncio.Protocol):
    """Closes the connection instead of replying."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.close()


class Refuser(asyncio.Protocol):
    """Speaks HTTP, but is out of order."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(b"HTTP/1.1 503 Not now\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("protocol", "mode", "complaint"),
    [
        (Liar, "echo", "not what was sent"),
        (Liar, "churn", "not what was sent"),
        (Sleeper, "echo", "closed the connection"),
        (Sleeper, "http", "closed the connection"),
        (Refuser, "http", "not a 200"),
        (Refuser, "websocket", "no websocket"),
    ],
)
async def test_client_notices_wrong_responses(loop, protocol, mode, complaint):
    server = await loop.create_server(protocol, "127.0.0.1", 0)
    async with server:
        address = f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(WrongReply, match=complaint):
            await load_client.ask(mode, address, TINY, connections=2)
    await loop.shutdown_default_executor()
