"""Web servers as people run them: uvicorn with FastAPI, aiohttp, websockets."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import socket
from collections.abc import AsyncIterator
from typing import Any

from bench import load_client
from bench.cases.tcp import BACKLOG
from bench.registry import Budget, Loop, Sample, Unavailable, case, require

GROUP = "stacks"


def needs(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Unavailable(f"{module} is not installed")


@contextlib.contextmanager
def listening() -> Any:
    # With its protocol: asyncio sets TCP_NODELAY only on connections whose socket names TCP, and a
    # connection gets the protocol of its listener. socket.create_server leaves it 0.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        yield listener, f"tcp:127.0.0.1:{listener.getsockname()[1]}"


@contextlib.asynccontextmanager
async def uvicorn_serving(app: object, listener: socket.socket) -> AsyncIterator[None]:
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        require(not serving.done(), "uvicorn ended at once")
        await asyncio.sleep(0.001)  # uvicorn has no event for it.
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@case("fastapi", group=GROUP, unit="requests/s")
async def fastapi(loop: Loop, budget: Budget) -> Sample:
    """A JSON response from FastAPI on uvicorn, 32 keep-alive connections."""
    needs("fastapi", "uvicorn")
    import fastapi

    async def item(number: int) -> dict[str, int]:
        return {"number": number}

    app = fastapi.FastAPI()
    app.get("/items/{number}")(item)

    with listening() as (listener, address):
        async with uvicorn_serving(app, listener):
            return await load_client.ask(
                "http", address, budget, connections=32, path="/items/7", expect='{"number":7}'
            )


@case("aiohttp", group=GROUP, unit="requests/s")
async def aiohttp(loop: Loop, budget: Budget) -> Sample:
    """A text response from aiohttp's server, 32 keep-alive connections."""
    needs("aiohttp")
    from aiohttp import web

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=f"hello {request.match_info['name']}")

    app = web.Application()
    app.router.add_get("/hello/{name}", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    with listening() as (listener, address):
        await web.SockSite(runner, listener).start()
        try:
            return await load_client.ask(
                "http", address, budget, connections=32, path="/hello/you", expect="hello you"
            )
        finally:
            await runner.cleanup()


@case("websockets", group=GROUP, unit="messages/s")
async def websockets(loop: Loop, budget: Budget) -> Sample:
    """Echo of 128-byte messages with websockets, 32 connections."""
    needs("websockets")
    from websockets.asyncio.server import ServerConnection, serve

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    with listening() as (listener, address):
        async with serve(echo, sock=listener, compression=None):
            return await load_client.ask("websocket", address, budget, connections=32, size=128)
