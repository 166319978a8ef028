"""Real frameworks and clients on the ASGI server."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel
from serving_apps import serving
from starlette.responses import FileResponse, StreamingResponse

pytestmark = pytest.mark.ours


class Item(BaseModel):
    name: str
    price: float


def application(folder: Any) -> FastAPI:
    app = FastAPI()
    app.state.left = asyncio.Event()

    @app.post("/items")
    async def items(item: Item) -> dict[str, Any]:
        return {"name": item.name, "price": item.price * 2}

    @app.get("/blocking")
    def blocking() -> str:
        # FastAPI runs it in a thread.
        return "from a thread"

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def numbers():
            for number in range(100):
                await asyncio.sleep(0)
                yield f"{number}\n"

        return StreamingResponse(numbers())

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def ticks():
            try:
                while True:
                    yield "data: tick\n\n"
                    await asyncio.sleep(0.01)
            finally:
                app.state.left.set()

        return StreamingResponse(ticks(), media_type="text/event-stream")

    @app.get("/file")
    async def file() -> FileResponse:
        (folder / "file").write_bytes(b"content" * 1000)
        return FileResponse(folder / "file")

    @app.middleware("http")
    async def header(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-seen"] = request.url.path
        return response

    return app


async def test_fastapi_and_httpx(loop, tmp_path):
    async with serving(application(tmp_path)) as (host, port):
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
            item = await client.post("/items", json={"name": "a", "price": 1.5})
            assert item.json() == {"name": "a", "price": 3.0}
            assert item.headers["x-seen"] == "/items"
            assert (await client.post("/items", json={})).status_code == 422
            assert (await client.get("/blocking")).json() == "from a thread"
            assert len((await client.get("/stream")).text.split()) == 100
            assert (await client.get("/file")).content == b"content" * 1000
            assert (await client.get("/nothing")).status_code == 404


async def test_aiohttp_and_many_requests(loop, tmp_path):
    async with serving(application(tmp_path)) as (host, port):
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:

            async def ask(number: int) -> float:
                item = {"name": "x", "price": number}
                async with session.post("/items", json=item) as response:
                    return (await response.json())["price"]

            prices = await asyncio.gather(*(ask(number) for number in range(200)))
    assert prices == [2.0 * number for number in range(200)]


async def test_an_endless_stream_ends_with_its_client(loop, tmp_path):
    app = application(tmp_path)
    async with serving(app) as (host, port):
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            async with session.get("/endless") as response:
                assert await response.content.readline() == b"data: tick\n"
        await asyncio.wait_for(app.state.left.wait(), 10)
