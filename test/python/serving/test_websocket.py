"""Do WebSockets reach the application, and both sides see the end of each other?"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import pytest
from serving_apps import get, parts_of, server_of, serving, talk
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.ours

KEY = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: " + "A" * 22 + "==")


async def echo(scope: Any, receive: Any, send: Any) -> None:
    assert (await receive()) == {"type": "websocket.connect"}
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


def url(address: tuple[str, int], path: str = "/") -> str:
    return f"ws://{address[0]}:{address[1]}{path}"


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_echo(loop, compression):
    async with serving(echo, lifespan="off") as address:
        async with connect(url(address), compression=compression) as client:
            for message in ("text", b"bytes", "", "ü" * 100_000, b"\0" * 1_000_000):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["in ", "three ", "fragments"])
            assert await client.recv() == "in three fragments"
            await asyncio.wait_for(await client.ping(), 5)


async def test_aiohttp(loop):
    async with serving(echo, lifespan="off") as address, aiohttp.ClientSession() as session:
        async with session.ws_connect(url(address)) as client:
            await client.send_str("hello")
            assert await client.receive_str() == "hello"


async def test_scope_and_subprotocol(loop):
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        await receive()
        headers = [(b"x-one", b"1")]
        await send({"type": "websocket.accept", "subprotocol": "b", "headers": headers})

    async with serving(app, lifespan="off") as address:
        async with connect(url(address, "/p%20q?r"), subprotocols=["a", "b"]) as client:
            assert client.subprotocol == "b"
            assert client.response.headers["x-one"] == "1"
            await client.wait_closed()
            assert client.close_code == 1000
    assert (seen["type"], seen["scheme"], seen["path"]) == ("websocket", "ws", "/p q")
    assert (seen["query_string"], seen["subprotocols"]) == (b"r", ["a", "b"])
    assert "method" not in seen


async def ended_by(loop: Any, action: Any, **options: Any) -> dict[str, Any]:
    """The message that the application gets when the client does this."""
    ended = asyncio.get_running_loop().create_future()

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            pass
        ended.set_result(message)

    async with serving(app, lifespan="off", **options) as address:
        async with connect(url(address), compression=None, close_timeout=0.1) as client:
            await action(client)
            return await asyncio.wait_for(ended, 10)


async def test_close_by_the_client(loop):
    message = await ended_by(loop, lambda client: client.close(3001, "enough"))
    assert message == {"type": "websocket.disconnect", "code": 3001, "reason": "enough"}


async def test_a_lost_connection(loop):
    async def lose(client):
        client.transport.abort()

    assert (await ended_by(loop, lose))["code"] == 1006


async def test_a_message_that_is_too_large(loop):
    async def send(client):
        await client.send("x" * 1001)
        await client.wait_closed()
        assert client.close_code == 1009

    assert (await ended_by(loop, send, ws_max_size=1000))["code"] == 1009


async def test_invalid_utf8(loop):
    async def send(client):
        client.transport.write(b"\x81\x81\0\0\0\0\xff")
        await client.wait_closed()
        assert client.close_code == 1007

    assert (await ended_by(loop, send))["code"] == 1007


async def test_an_unmasked_frame(loop):
    async def send(client):
        client.transport.write(b"\x81\x01a")
        await client.wait_closed()
        assert client.close_code == 1002

    assert (await ended_by(loop, send))["code"] == 1002


async def test_a_client_that_does_not_answer_pings(loop):
    async def freeze(client):
        client.transport.pause_reading()

    message = await ended_by(loop, freeze, ws_ping_interval=0.05, ws_ping_timeout=0.05)
    assert message["code"] == 1006


async def test_close_by_the_application(loop):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 3000, "reason": "bye"})
        assert (await receive())["type"] == "websocket.disconnect"
        with pytest.raises(OSError, match="closed"):
            await send({"type": "websocket.send", "text": "late"})

    async with serving(app, lifespan="off") as address:
        async with connect(url(address)) as client:
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert (client.close_code, client.close_reason) == (3000, "bye")


async def refused_with(app: Any) -> int:
    async with serving(app, lifespan="off") as address:
        with pytest.raises(InvalidStatus) as caught:
            async with connect(url(address)):
                pass
    return caught.value.response.status_code


async def test_close_before_accept(loop):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.close"})
        assert (await receive())["type"] == "websocket.disconnect"

    assert await refused_with(app) == 403


async def test_a_response_instead(loop):
    async def app(scope, receive, send):
        assert "websocket.http.response" in scope["extensions"]
        headers = [(b"content-length", b"2")]
        await send({"type": "websocket.http.response.start", "status": 418, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"no"})

    assert await refused_with(app) == 418


async def test_raising_before_accept(loop, caplog):
    async def app(scope, receive, send):
        raise ValueError("broken")

    assert await refused_with(app) == 500
    assert "ValueError: broken" in caplog.text


async def test_raising_after_accept(loop, caplog):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        raise ValueError("broken")

    async with serving(app, lifespan="off") as address, connect(url(address)) as client:
        await client.wait_closed()
        assert client.close_code == 1011
    assert "ValueError: broken" in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((*KEY, "Sec-WebSocket-Version: 12"), 426),
        ((*KEY[:2], "Sec-WebSocket-Version: 13"), 400),
        ((*KEY[:2], "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"), 400),
    ],
)
async def test_invalid_handshakes(loop, headers, status):
    async with serving(echo, lifespan="off") as address:
        answer = await talk(address, get("/", *headers, close=False))
    assert parts_of(answer)[0] == status


async def test_a_slow_application_stops_the_client(loop):
    go = asyncio.Event()
    got = 0

    async def app(scope, receive, send):
        nonlocal got
        await receive()
        await send({"type": "websocket.accept"})
        await go.wait()
        while (await receive())["type"] == "websocket.receive":
            got += 1

    async with serving(app, lifespan="off") as address:
        async with connect(url(address), compression=None) as client:
            sending = asyncio.gather(*(client.send(b"x" * 100_000) for _ in range(200)))
            await asyncio.sleep(0.1)
            assert not sending.done()
            go.set()
            await sending
    assert got == 200


async def test_restart_is_1012(loop, caplog):
    cleaned = []

    async def app(scope, receive, send):
        try:
            await echo(scope, receive, send)
        finally:
            cleaned.append(True)

    async with server_of(app, lifespan="off") as (server, address):
        async with connect(url(address)) as client:
            await client.send("x")
            await client.recv()
            assert server.counts()["websockets"] == 1
            assert await server.drain(5)
            await client.wait_closed()
            assert client.close_code == 1012
    assert cleaned == [True]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_a_stuck_application_is_cancelled_at_the_end(loop):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(60)

    async with server_of(app, lifespan="off") as (server, address):
        async with connect(url(address)):
            await server.close(0)
            assert server.counts()["websockets"] == 0
