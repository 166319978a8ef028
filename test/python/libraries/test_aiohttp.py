"""aiohttp: server and client, TLS, websockets, streaming bodies."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

pytestmark = pytest.mark.ours

PIECES = [bytes([number]) * 40_000 for number in range(50)]


async def hello(request: web.Request) -> web.Response:
    return web.json_response({"you": request.query["name"], "secure": request.secure})


async def digest(request: web.Request) -> web.Response:
    """Reads a body of any size piece by piece."""
    sha = hashlib.sha256()
    async for piece in request.content.iter_any():
        sha.update(piece)
    return web.Response(text=sha.hexdigest())


async def pieces(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in PIECES:
        await response.write(piece)
    await response.write_eof()
    return response


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type is aiohttp.WSMsgType.TEXT:
            await socket.send_str(message.data.upper())
        elif message.type is aiohttp.WSMsgType.BINARY:
            await socket.send_bytes(message.data[::-1])
    return socket


@asynccontextmanager
async def served(certificates) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/hello", hello)
    app.router.add_post("/digest", digest)
    app.router.add_get("/pieces", pieces)
    app.router.add_get("/echo", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "localhost", 0, ssl_context=certificates.server)
        await site.start()
        port = runner.addresses[0][1]
        yield f"https://localhost:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def session(certificates) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=certificates.client)
    async with aiohttp.ClientSession(connector=connector) as client:
        yield client


async def test_requests_over_tls(loop, certificates):
    async with served(certificates) as url, session(certificates) as client:

        async def ask(number: int) -> None:
            async with client.get(f"{url}/hello", params={"name": str(number)}) as response:
                assert response.status == 200
                assert await response.json() == {"you": str(number), "secure": True}

        await asyncio.gather(*map(ask, range(200)))


async def test_body_streamed_up(loop, certificates):
    async def body() -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece
            await asyncio.sleep(0)

    async with served(certificates) as url, session(certificates) as client:
        async with client.post(f"{url}/digest", data=body()) as response:
            assert await response.text() == hashlib.sha256(b"".join(PIECES)).hexdigest()


async def test_body_streamed_down(loop, certificates):
    async with served(certificates) as url, session(certificates) as client:
        received = bytearray()
        async with client.get(f"{url}/pieces") as response:
            async for piece in response.content.iter_chunked(10_000):
                received += piece
        assert received == b"".join(PIECES)


async def test_client_leaves_in_the_middle_of_a_body(loop, certificates):
    async with served(certificates) as url, session(certificates) as client:
        response = await client.get(f"{url}/pieces")
        await response.content.readexactly(1000)
        response.close()
        async with client.get(f"{url}/hello", params={"name": "next"}) as after:
            assert after.status == 200


async def test_websocket(loop, certificates):
    async with served(certificates) as url, session(certificates) as client:
        async with client.ws_connect(f"{url}/echo") as socket:
            for number in range(100):
                await socket.send_str(f"message {number}")
                assert await socket.receive_str() == f"MESSAGE {number}"
            big = bytes(range(256)) * 4000
            await socket.send_bytes(big)
            assert await socket.receive_bytes() == big[::-1]
        assert socket.close_code == 1000


async def test_certificate_is_checked(loop, certificates):
    """A client that does not trust the authority must not connect."""
    async with served(certificates) as url, aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(f"{url}/hello")


async def test_time_limit_of_a_request(loop, certificates):
    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        raise AssertionError("unreachable")

    app = web.Application()
    app.router.add_get("/", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        limit = aiohttp.ClientTimeout(total=0.05)
        async with aiohttp.ClientSession(timeout=limit) as client:
            with pytest.raises(asyncio.TimeoutError):
                await client.get(f"http://127.0.0.1:{port}/")
    finally:
        await runner.cleanup()
