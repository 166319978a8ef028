"""Random input from the network to HTTP servers and a datagram endpoint.

The seed is in the failure's text; FUZZ_SEED repeats it, FUZZ_INPUTS makes it longer.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import time

import pytest
from command import ERLANG_LOOP, PATIENCE, ROOT, running
from connections import Datagrams
from erlang_loop.http import HttpServer, Limits, Request, Response
from test_http import client, status

pytestmark = pytest.mark.ours

SEED = int(os.environ.get("FUZZ_SEED", time.time_ns()))
INPUTS = int(os.environ.get("FUZZ_INPUTS", "200"))
#: This many per test: the time limit is for these.
PART = 500

#: The example's own, and one that it has not.
PATHS = (b"/", b"/sum", b"/ticks", b"/path?query")
REQUEST = (
    b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: keep-alive\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
)


def mutated(rng: random.Random) -> bytes:
    """A request with some of its bytes changed, doubled, cut out, or replaced by a number."""
    data = bytearray(REQUEST % rng.choice(PATHS))
    for _ in range(rng.randrange(6)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.randrange(20))
        part = bytes(data[start:end])
        data[start:end] = rng.choice(
            (
                bytes(rng.randrange(256) for _ in part),
                part * rng.randrange(1, 40),
                b"",
                str(rng.choice((-1, 1 << 64, 10**30))).encode(),
            )
        )
    return bytes(data)


def send(address: tuple[str, int], rng: random.Random, count: int) -> None:
    """In pieces; reads what comes, and leaves in some way or other."""
    for _ in range(count):
        with socket.create_connection(address, timeout=PATIENCE) as sock:
            data = mutated(rng)
            cut = rng.randrange(len(data) + 1)
            try:
                sock.sendall(data[:cut])
                sock.sendall(data[cut:])
                if rng.random() < 0.5:
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(65536):
                        pass
            except ConnectionError:
                pass


def good(address: tuple[str, int]) -> bytes:
    with socket.create_connection(address, timeout=PATIENCE) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        return sock.makefile("rb").read()


def answer(request: Request, response: Response) -> None:
    response.send(request.body)


def test_http(callbacks):
    rng = random.Random(SEED)
    server = HttpServer(callbacks, answer, limits=Limits(header_size=2000, body_size=1000))
    for left in range(INPUTS, 0, -PART):
        client(callbacks, send, server.address, rng, min(left, PART))
    assert status(client(callbacks, good, server.address)) == 200, f"FUZZ_SEED={SEED}"


def test_http_of_the_example():
    """It serves and ends in order afterwards, and nothing in it has raised."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    with running(ERLANG_LOOP, str(ROOT / "examples/http_server.py"), str(address[1])) as program:
        program.wait_line(f"listening on http://127.0.0.1:{address[1]}")
        send(address, random.Random(SEED), INPUTS)
        assert status(good(address)) == 200, f"FUZZ_SEED={SEED}"
        ended = program.end(signal.SIGINT)
    # Not that it is empty: on a busy machine the watchdog may log something.
    assert ended.code == 0
    assert "Traceback" not in ended.err, f"FUZZ_SEED={SEED}\n{ended.err}"


def test_datagrams(loop):
    """Of any size and from many senders, some of which are closed when the reply is sent."""
    # Not as a coroutine test, which has a time limit: `make fuzz` runs this for long.
    answered = loop.run_until_complete(send_datagrams(loop, random.Random(SEED)))
    assert answered == b"still there?", f"FUZZ_SEED={SEED}"


async def send_datagrams(loop: asyncio.AbstractEventLoop, rng: random.Random) -> bytes:
    class Echo(Datagrams):
        def datagram_received(self, data: bytes, addr: object) -> None:
            self.transport.sendto(data, addr)

    transport, _protocol = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    try:
        address = transport.get_extra_info("sockname")
        for _ in range(INPUTS):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                size = rng.choice((0, 1, 100, 1472, 60_000, 65_507))
                sender.sendto(rng.randbytes(size), address)
            await asyncio.sleep(0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(address)
            answers: list[bytes] = []
            loop.add_reader(sender, lambda: answers.append(sender.recv(100)))
            while not answers:
                # A full queue of the system's loses datagrams.
                sender.send(b"still there?")
                await asyncio.sleep(0.01)
            loop.remove_reader(sender)
        return answers[0]
    finally:
        transport.close()
