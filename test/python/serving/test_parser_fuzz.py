"""Does the native parser accept only what h11 accepts, and understand it as h11 and httptools do?

Ours may refuse more. httptools knows fewer methods than there are: what it refuses is not compared.
FUZZ_INPUTS sets the number of inputs, FUZZ_SEED the first of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import h11
import pytest
from erlang_loop import _native
from serving_apps import body_of, get, post, respond

try:
    import httptools
except ImportError:  # There is none for this Python.
    httptools = None

pytestmark = pytest.mark.ours

INPUTS = int(os.environ.get("FUZZ_INPUTS", "50000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
BATCH = 200

CHUNKS = b"5\r\nhello\r\n3;a=b\r\nyou\r\n0\r\n\r\n"
SAMPLES = [
    get(),
    get("/path?query=1", "Accept: */*", "X-Long: " + "y" * 40),
    get(version="1.0"),
    post(b"hello", "Content-Length: 5"),
    post(CHUNKS, "Transfer-Encoding: chunked"),
    post(CHUNKS.replace(b"0\r\n", b"0\r\nTrailer: x\r\n"), "Transfer-Encoding: chunked"),
    post(b"hello", "Content-Length: 5", "Connection: keep-alive, x"),
]
PARTS = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"5", b"-1", b"+5", b"0x5",
    b" ;x", b"\t;x",
    b"\r\n ", b"\x80", b"%", b"Content-Length: 5\r\n", b"Content-Length: 6\r\n", b"HTTP/1.1",
    b"Transfer-Encoding: chunked\r\n", b"transfer-encoding:\tchunked\r\n", b"Host: b\r\n",
    b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding: chunked, chunked\r\n",
    b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n", b"chunked", b"1.0", b"ffffffffffffffff",
]  # fmt: skip


def mutated(choose: random.Random) -> bytes:
    data = bytearray(choose.choice(SAMPLES))
    for _ in range(choose.choice((0, 1, 1, 1, 2, 3))):
        at = choose.randrange(len(data) + 1)
        match choose.randrange(5):
            case 0:
                data[at:at] = choose.choice(PARTS)
            case 1:
                del data[at : at + choose.choice((1, 1, 2, 8))]
            case 2:
                data[at : at + 1] = bytes([choose.randrange(256)])
            case 3:
                data[at:at] = data[at : at + choose.randrange(30)]
            case 4:
                # In front of a header, where most of PARTS belong.
                lines = data.split(b"\r\n")
                place = choose.randrange(1, len(lines) + 1)
                lines[place:place] = [choose.choice(PARTS).strip()]
                data = bytearray(b"\r\n".join(lines))
    return bytes(data)


Seen = tuple[str, str, list[tuple[bytes, bytes]], bytes]


def seen_by_h11(data: bytes) -> Seen | None:
    """The first request; None if it is incomplete or refused."""
    connection = h11.Connection(h11.SERVER)
    request, body = None, b""
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                headers = [(bytes(name), bytes(value)) for name, value in request.headers]
                return request.method.decode(), request.target.decode(), headers, body
            else:
                return None
    except h11.RemoteProtocolError:
        return None


class Request:
    """The first request, as httptools calls back."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.complete = False

    def on_url(self, part: bytes) -> None:
        if not self.complete:
            self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are reported as headers.
        if not self.complete and not self.body:
            self.headers.append((name.lower(), value))

    def on_body(self, part: bytes) -> None:
        if not self.complete:
            self.body += part

    def on_message_complete(self) -> None:
        self.complete = True


def seen_by_httptools(data: bytes) -> Seen | None:
    """As above."""
    if httptools is None:
        return None
    request = Request()
    parser = httptools.HttpRequestParser(request)
    try:
        parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        if not request.complete:
            return None
    if not request.complete:
        return None
    method = data.split(b" ", 1)[0].decode("latin-1")
    return method, request.target.decode("latin-1"), request.headers, request.body


class Transport:
    """Takes what the server writes."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def ignore(self, *_: object) -> None:
        pass

    write = writelines = write_eof = close = abort = pause_reading = resume_reading = ignore


async def test_against_h11(loop):
    seen: list[Seen] = []

    async def run(scope: dict[str, Any], request: Any) -> None:
        try:
            body = await body_of(request.receive)
            query = scope["query_string"]
            target = scope["raw_path"] + (b"?" + query if query else b"")
            seen.append((scope["method"], target.decode(), scope["headers"], body))
            await respond(request.send, b"")
        except OSError:
            pass
        finally:
            request.end()

    template = {"root_path": "", "scheme": "http", "state": {}}
    server = _native.HttpServer(loop, run, lambda *_: None, template)

    def check(number: int) -> bool:
        choose = random.Random(number)
        data = mutated(choose)
        seen.clear()
        connection = server()
        connection.connection_made(Transport())
        cuts = sorted(choose.randrange(len(data) + 1) for _ in range(choose.randrange(4)))
        for start, end in zip([0, *cuts], [*cuts, len(data)]):
            connection.data_received(data[start:end])
        connection.connection_lost(None)
        if not seen:
            return False
        # Ours ignores empty lines before a request, as RFC 9112 (2.2) says.
        while data.startswith(b"\r\n"):
            data = data[2:]
        expected = seen_by_h11(data)
        assert expected is not None, f"h11 refuses input {number}: {data!r}"
        method, target, headers, body = seen[0]
        # h11 changes the case of this value.
        encoding = b"transfer-encoding"
        headers = [(name, value.lower() if name == encoding else value) for name, value in headers]
        # Ours is split into path and query.
        assert (method, target) == (expected[0], expected[1].removesuffix("?")), (number, data)
        assert (headers, body) == expected[2:], f"input {number}: {data!r}"
        other = seen_by_httptools(data)
        if other is not None:
            compared_with_httptools[0] += 1
            assert (method, target) == (other[0], other[1].removesuffix("?")), (number, data)
            assert body == other[3], f"input {number}: {data!r}"
        return True

    compared_with_httptools = [0]
    accepted = 0
    for first in range(SEED, SEED + INPUTS, BATCH):
        # In a callback, as a transport does: requests are started there, not in a task.
        done = loop.create_future()

        def batch(first: int = first, done: asyncio.Future[int] = done) -> None:
            try:
                done.set_result(sum(check(number) for number in range(first, first + BATCH)))
            except BaseException as error:
                done.set_exception(error)

        loop.call_soon(batch)
        accepted += await done
    # Most inputs have to be understood by both, or nothing is compared.
    assert accepted > INPUTS // 8
    if httptools is not None:
        assert compared_with_httptools[0] > INPUTS // 10
