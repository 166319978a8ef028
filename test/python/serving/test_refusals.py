"""Does the server refuse what two readers could understand differently, and what never ends?"""

from __future__ import annotations

import asyncio

import pytest
from serving_apps import about, get, parts_of, post, serving, talk

pytestmark = pytest.mark.ours

CHUNKED = "Transfer-Encoding: chunked"

REFUSED = {
    "Content-Length and Transfer-Encoding": (400, post(b"0\r\n\r\n", "Content-Length: 5", CHUNKED)),
    "two Content-Lengths": (400, post(b"x", "Content-Length: 1", "Content-Length: 2")),
    "a list as Content-Length": (400, post(b"x", "Content-Length: 1, 1")),
    "a signed Content-Length": (400, post(b"x", "Content-Length: +1")),
    "a negative Content-Length": (400, post(b"x", "Content-Length: -1")),
    "an endless Content-Length": (400, post(b"x", "Content-Length: 99999999999999999999")),
    "Transfer-Encoding twice": (400, post(b"0\r\n\r\n", CHUNKED, CHUNKED)),
    "an unknown Transfer-Encoding": (501, post(b"", "Transfer-Encoding: gzip, chunked")),
    "a hidden Transfer-Encoding": (501, post(b"", "Transfer-Encoding: xchunked")),
    "Transfer-Encoding in HTTP/1.0": (400, post(b"", CHUNKED).replace(b"1.1", b"1.0")),
    "space before the colon": (400, get("/", "X : 1")),
    "obs-fold": (400, get("/", "X: 1\r\n Content-Length: 5")),
    "a bare LF": (400, b"GET / HTTP/1.1\nHost: a\n\n"),
    "a bare LF in a header": (400, get("/", "X: 1\nY: 2")),
    "a bare CR": (400, get("/", "X: 1\rY: 2")),
    "NUL in a value": (400, get("/", "X: \0")),
    "a name that is no token": (400, get("/", "X(: 1")),
    "no name": (400, get("/", ": 1")),
    "no Host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two Hosts": (400, get("/", "Host: other")),
    "an invalid Host": (400, b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    "a space in the target": (400, get("/a b")),
    "a fragment": (400, get("/a#b")),
    "no path": (400, get("a")),
    "a tunnel": (501, b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    "an unknown expectation": (417, get("/", "Expect: something")),
    "a large head": (431, get("/", "X: " + "x" * 70_000)),
    "many headers": (431, get("/", *(f"X-{n}: 1" for n in range(200)))),
    "a chunk size of words": (400, post(b"zz\r\n\r\n", CHUNKED)),
    "a chunk size with a sign": (400, post(b"+5\r\nhello\r\n0\r\n\r\n", CHUNKED)),
    "a chunk size in 0x": (400, post(b"0x5\r\nhello\r\n0\r\n\r\n", CHUNKED)),
    "an endless chunk size": (400, post(b"fffffffffffffffff\r\n", CHUNKED)),
    "no chunk size": (400, post(b"\r\nhello", CHUNKED)),
    "a chunk longer than its size": (400, post(b"5\r\nhello!\r\n0\r\n\r\n", CHUNKED)),
    "a bare LF behind a chunk size": (400, post(b"5\nhello\r\n0\r\n\r\n", CHUNKED)),
    "a long chunk extension": (400, post(b"5;" + b"x" * 5000 + b"\r\nhello", CHUNKED)),
    "space before a chunk extension": (400, post(b"5 ;x\r\nhello\r\n0\r\n\r\n", CHUNKED)),
    "a tab before a chunk extension": (400, post(b"5\t;x\r\nhello\r\n0\r\n\r\n", CHUNKED)),
    "space behind a chunk size": (400, post(b"5 \r\nhello\r\n0\r\n\r\n", CHUNKED)),
    "an invalid trailer": (400, post(b"0\r\nno colon\r\n\r\n", CHUNKED)),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(loop, name):
    status, request = REFUSED[name]
    async with serving(about) as address:
        got, headers, body = parts_of(await talk(address, request))
    assert (got, headers["connection"]) == (status, "close")
    assert body


async def test_what_follows_a_refused_request_is_not_read(loop):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["path"])

    async with serving(app, lifespan="off") as address:
        _, request = REFUSED["Content-Length and Transfer-Encoding"]
        answer = await talk(address, request + get("/smuggled"))
    assert answer.count(b"HTTP/1.1") == 1
    assert seen == []


async def test_body_limit(loop):
    async with serving(about, limit_request_body=10) as address:
        length = await talk(address, post(b"x" * 11, "Content-Length: 11"))
        chunked = await talk(address, post(b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n", CHUNKED))
        allowed = await talk(address, post(b"x" * 10, "Content-Length: 10"))
    assert parts_of(length)[0] == parts_of(chunked)[0] == 413
    assert parts_of(allowed)[0] == 200


async def test_concurrency_limit(loop):
    busy = asyncio.Event()
    go = asyncio.Event()

    async def app(scope, receive, send):
        busy.set()
        await go.wait()
        await about(scope, receive, send)

    async with serving(app, lifespan="off", limit_concurrency=1) as address:
        first = asyncio.ensure_future(talk(address, get()))
        await busy.wait()
        assert parts_of(await talk(address, get()))[0] == 503
        go.set()
        assert parts_of(await first)[0] == 200


async def test_a_head_that_never_ends(loop):
    """Slow loris: the time is for the whole head, however many bytes trickle in."""
    async with serving(about, timeout_request_head=0) as address:
        answer = await talk(address, b"GET / HTTP/1.1\r\n")
        silent = await talk(address)
    assert parts_of(answer)[0] == 408
    assert silent == b""


async def test_an_idle_connection_is_closed(loop):
    async with serving(about, timeout_keep_alive=0) as address:
        answer = await talk(address, get(close=False))
    assert parts_of(answer)[0] == 200
