"""uvicorn serving FastAPI, asked by httpx and by a websocket client, all in one loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import fastapi
import httpx
import pytest
import uvicorn
import websockets.asyncio.client
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

pytestmark = pytest.mark.ours


class Item(BaseModel):
    name: str
    price: float


class Application:
    """A FastAPI application that notes what its lifespan did."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.app = fastapi.FastAPI(lifespan=self.lifespan)
        self.app.post("/items/{number}")(self.add)
        self.app.get("/blocking")(self.blocking)
        self.app.get("/stream")(self.stream)
        self.app.websocket("/echo")(self.echo)

    @asynccontextmanager
    async def lifespan(self, app: fastapi.FastAPI) -> AsyncIterator[None]:
        self.loop = asyncio.get_running_loop()
        self.events.append("started")
        yield
        self.events.append("stopped")

    async def add(self, number: int, item: Item) -> dict[str, object]:
        return {"number": number, "name": item.name, "total": item.price * number}

    def blocking(self) -> dict[str, bool]:
        """Not a coroutine: FastAPI runs it in a thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return {"in_loop": False}
        return {"in_loop": True}

    async def stream(self) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            for number in range(1000):
                yield f"line {number}\n"

        return StreamingResponse(lines())

    async def echo(self, websocket: fastapi.WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text[::-1])


@asynccontextmanager
async def served(application: Application, **options: str) -> AsyncIterator[int]:
    """`uvicorn.Server.serve` as a task of this loop; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(application.app, log_level="warning", **options)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            while not server.started:
                assert not serving.done()
                await asyncio.sleep(0.001)  # uvicorn has no event for it.
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def test_requests(loop):
    application = Application()
    async with served(application) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            body = {"name": "spam", "price": 1.5}
            answers = await asyncio.gather(
                *(client.post(f"/items/{number}", json=body) for number in range(50))
            )
            totals = [answer.json()["total"] for answer in answers]
            assert totals == [number * 1.5 for number in range(50)]
            wrong = await client.post("/items/1", json={"name": "spam"})
            assert wrong.status_code == 422
            assert (await client.get("/blocking")).json() == {"in_loop": False}
    assert application.loop is loop
    assert application.events == ["started", "stopped"]


async def test_streamed_response(loop):
    async with served(Application()) as port:
        url = f"http://127.0.0.1:{port}/stream"
        async with httpx.AsyncClient() as client, client.stream("GET", url) as answer:
            lines = [line async for line in answer.aiter_lines()]
    assert lines == [f"line {number}" for number in range(1000)]


async def test_websocket_endpoint(loop):
    async with served(Application(), ws="websockets-sansio") as port:
        url = f"ws://127.0.0.1:{port}/echo"
        async with websockets.asyncio.client.connect(url) as client:
            for number in range(100):
                await client.send(f"message {number}")
                assert await client.recv() == f"message {number}"[::-1]


async def test_over_tls(loop, certificates):
    files = {"ssl_certfile": certificates.server_file, "ssl_keyfile": certificates.server_file}
    async with served(Application(), **files) as port:
        async with httpx.AsyncClient(verify=certificates.client) as client:
            answer = await client.get(f"https://localhost:{port}/blocking")
            assert answer.json() == {"in_loop": False}
