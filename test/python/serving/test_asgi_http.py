"""Does the ASGI server speak HTTP/1.1, and give the application what the client sent?"""

from __future__ import annotations

import asyncio
import json

import pytest
from serving_apps import about, get, parts_of, post, respond, serving, talk

pytestmark = pytest.mark.ours


async def test_get(loop):
    async with serving(about) as address:
        request = get("/a%20b/%C3%BC?x=1&y=%20", "X-One: 1", "x-one: 2")
        status, headers, body = parts_of(await talk(address, request))
    assert status == 200
    assert headers["connection"] == "close"
    assert headers["server"] == "erlang-loop"
    assert headers["date"].endswith("GMT")
    seen = json.loads(body)
    assert int(headers["content-length"]) == len(body)
    assert (seen["method"], seen["path"], seen["query"]) == ("GET", "/a b/ü", "x=1&y=%20")
    assert seen["headers"] == [
        ["host", "test"],
        ["x-one", "1"],
        ["x-one", "2"],
        ["connection", "close"],
    ]


async def test_scope(loop):
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        await respond(send, b"")

    async with serving(app, lifespan="off", root_path="/root") as address:
        reader, writer = await asyncio.open_connection(*address)
        client = writer.get_extra_info("sockname")
        writer.write(b"GET http://example.org/p?q HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()
    assert seen["type"] == "http"
    assert seen["asgi"] == {"version": "3.0", "spec_version": "2.4"}
    assert (seen["scheme"], seen["root_path"]) == ("http", "/root")
    assert (seen["path"], seen["raw_path"], seen["query_string"]) == ("/root/p", b"/root/p", b"q")
    assert (seen["client"], seen["server"]) == (client, address)
    assert seen["state"] == {}


@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
async def test_post_with_a_length(loop, size):
    body = b"x" * size
    async with serving(about) as address:
        request = post(body, f"Content-Length: {size}")
        _, _, answer = parts_of(await talk(address, request))
    assert len(json.loads(answer)["body"]) == size


async def test_post_in_chunks_byte_by_byte(loop):
    async with serving(about) as address:
        request = post(
            b"5;ext=1\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
            "Transfer-Encoding: chunked",
        )
        answer = await talk(address, *(request[i : i + 1] for i in range(len(request))))
    assert json.loads(parts_of(answer)[2])["body"] == "hello 0123456789"


async def test_keep_alive_and_pipelining(loop):
    async with serving(about) as address:
        requests = [get(f"/{n}", close=n == 99) for n in range(100)]
        answer = await talk(address, b"".join(requests))
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 100
    paths = [
        json.loads(part.split(b"HTTP/1.1")[0])["path"] for part in answer.split(b"\r\n\r\n")[1:]
    ]
    assert paths == [f"/{n}" for n in range(100)]


async def test_pipelined_responses_keep_their_order(loop):
    async def app(scope, receive, send):
        await asyncio.sleep(0.02 if scope["path"] == "/slow" else 0)
        await respond(send, scope["path"].encode())

    async with serving(app, lifespan="off") as address:
        answer = await talk(address, get("/slow", close=False) + get("/quick"))
    assert answer.index(b"/slow") < answer.index(b"/quick")


async def test_http_10(loop):
    async with serving(about) as address:
        first = await talk(address, b"GET / HTTP/1.0\r\n\r\n")
        kept = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        second = await talk(address, kept + b"GET / HTTP/1.0\r\n\r\n")
    assert parts_of(first)[1]["connection"] == "close"
    assert second.count(b"HTTP/1.1 200") == 2
    assert second.count(b"connection: keep-alive") == 1


async def test_a_body_in_parts_is_chunked(loop):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for part in (b"one", b"", b"two" * 10_000):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async with serving(app, lifespan="off") as address:
        chunked = await talk(address, get())
        plain = await talk(address, get(version="1.0"))
    _, headers, body = parts_of(chunked)
    assert headers["transfer-encoding"] == "chunked"
    assert body == b"3\r\none\r\n7530\r\n" + b"two" * 10_000 + b"\r\n0\r\n\r\n"
    _, headers, body = parts_of(plain)
    assert "transfer-encoding" not in headers
    assert body == b"one" + b"two" * 10_000


async def test_trailers_of_a_response(loop):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "trailers": True})
        await send({"type": "http.response.body", "body": b"x"})
        await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"1")]})

    async with serving(app, lifespan="off") as address:
        _, _, body = parts_of(await talk(address, get()))
    assert body == b"1\r\nx\r\n0\r\nx-sum: 1\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
async def test_no_body(loop, status):
    async def app(scope, receive, send):
        await respond(send, b"dropped", status)

    async with serving(app, lifespan="off") as address:
        got, headers, body = parts_of(await talk(address, get()))
    assert (got, body) == (status, b"")
    assert "content-length" not in headers
    assert "transfer-encoding" not in headers


async def test_head(loop):
    async def app(scope, receive, send):
        await respond(send, b"dropped", headers=[(b"content-length", b"7")])

    async with serving(app, lifespan="off") as address:
        request = get().replace(b"GET", b"HEAD")
        _, headers, body = parts_of(await talk(address, request))
    assert (headers["content-length"], body) == ("7", b"")


async def test_expect_continue(loop):
    async with serving(about) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(post(b"", "Content-Length: 2", "Expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        assert json.loads(parts_of(await reader.read())[2])["body"] == "hi"
        writer.close()


async def test_no_continue_for_an_unwanted_body(loop):
    async def app(scope, receive, send):
        await respond(send, b"no", 403)

    async with serving(app, lifespan="off") as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(post(b"", "Content-Length: 2", "Expect: 100-continue", close=False))
        assert (await reader.read()).startswith(b"HTTP/1.1 403")
        writer.close()


async def test_a_body_that_is_not_read_is_dropped(loop):
    async def app(scope, receive, send):
        await respond(send, b"done")

    async with serving(app, lifespan="off") as address:
        first = post(b"GET /smuggled HTTP/1.1\r\n", "Content-Length: 24", close=False)
        answer = await talk(address, first, get())
    assert answer.count(b"HTTP/1.1 200") == 2


async def test_a_large_upload_waits_for_the_application(loop):
    """What the application does not receive stays with the client."""
    size = 20_000_000
    go = asyncio.Event()
    most = 0

    async def app(scope, receive, send):
        nonlocal most
        await go.wait()
        got = 0
        while got < size:
            message = await receive()
            most = max(most, len(message["body"]))
            got += len(message["body"])
        await respond(send, str(got).encode())

    async with serving(app, lifespan="off") as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(post(b"", f"Content-Length: {size}"))
        writer.write(b"x" * size)
        await asyncio.sleep(0.05)
        unsent = writer.transport.get_write_buffer_size()
        go.set()
        answer = await reader.read()
        writer.close()
    assert answer.endswith(str(size).encode())
    assert unsent > size // 2
    assert most < 1_000_000


async def test_a_slow_reader_stops_the_application(loop):
    sent = 0

    async def app(scope, receive, send):
        nonlocal sent
        await send({"type": "http.response.start", "status": 200})
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})

    async with serving(app, lifespan="off") as address:
        reader, writer = await asyncio.open_connection(*address, limit=1000)
        writer.write(get())
        await reader.readline()
        await asyncio.sleep(0.1)
        assert sent < 200
        while await reader.read(1_000_000):
            pass
        writer.close()
    assert sent == 400


async def test_pathsend(loop, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"content" * 10_000)

    async def app(scope, receive, send):
        assert "http.response.pathsend" in scope["extensions"]
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.pathsend", "path": str(file)})

    async with serving(app, lifespan="off") as address:
        answer = await talk(address, get(close=False) + get())
    assert answer.count(b"content" * 10_000) == 2
    assert answer.count(b"content-length: 70000") == 2


async def test_receive_and_send_can_be_tasks(loop):
    """Programs pass them to create_task, which takes coroutines only."""

    async def app(scope, receive, send):
        first = await asyncio.create_task(receive())
        rest = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        rest.cancel()
        await asyncio.create_task(
            send({"type": "http.response.start", "status": 200, "headers": []})
        )
        await asyncio.gather(send({"type": "http.response.body", "body": first["body"]}))
        assert (await asyncio.wait_for(receive(), 5))["type"] == "http.disconnect"

    async with serving(app, lifespan="off") as address:
        answer = await talk(address, post(b"abc", "Content-Length: 3"))
    assert answer.endswith(b"abc")
