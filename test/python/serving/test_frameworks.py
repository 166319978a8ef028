"""Do applications of frameworks behave in the server as in their frameworks' own test clients?

Each request is made twice: by the test client of Starlette, FastAPI or Django, which calls the
application, and by a real client of a real server.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import fastapi
import httpx
import pytest
from serving_apps import server_of, serving
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.ours

#: The server adds these, or HTTP/1.1 does.
OWN = {"server", "date", "transfer-encoding", "connection"}


def seen(response: Any) -> tuple[int, list[tuple[str, str]], bytes]:
    headers = sorted((name.lower(), value) for name, value in response.headers.items())
    return response.status_code, [pair for pair in headers if pair[0] not in OWN], response.content


def fastapi_app(file: Path) -> Any:
    from fastapi.responses import FileResponse, RedirectResponse, StreamingResponse
    from pydantic import BaseModel

    class Item(BaseModel):
        name: str
        price: float = 1.0

    app = fastapi.FastAPI()

    @app.get("/items/{number}")
    async def item(number: int, q: str | None = None) -> dict[str, Any]:
        return {"number": number, "q": q}

    @app.post("/items")
    async def create(item: dict[str, Any]) -> dict[str, Any]:
        return Item(**item).model_dump()

    @app.get("/plain")
    def plain() -> str:
        return "from a thread"

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def parts() -> Any:
            for number in range(5):
                yield f"{number}\n"
                await asyncio.sleep(0)

        return StreamingResponse(parts(), media_type="text/plain")

    @app.get("/file")
    async def download() -> FileResponse:
        return FileResponse(file)

    @app.get("/redirect")
    async def redirect() -> RedirectResponse:
        return RedirectResponse("/plain")

    @app.get("/cookie")
    async def cookie(response: fastapi.Response, request: fastapi.Request) -> dict[str, str]:
        response.set_cookie("a", "b")
        response.set_cookie("c", "d")
        return dict(request.cookies)

    @app.put("/body")
    async def body(request: fastapi.Request) -> dict[str, Any]:
        data = b"".join([part async for part in request.stream()])
        return {"size": len(data), "length": request.headers.get("content-length")}

    @app.get("/raises")
    async def raises() -> None:
        raise RuntimeError("raised")

    @app.get("/forbidden")
    async def forbidden() -> None:
        raise fastapi.HTTPException(403, "no", headers={"X-Why": "because"})

    @app.websocket("/echo")
    async def echo(websocket: fastapi.WebSocket, name: str = "") -> None:
        await websocket.accept(subprotocol="chat")
        await websocket.send_json({"name": name})
        while True:
            message = await websocket.receive_text()
            if message == "close":
                await websocket.close(3001, "asked")
                return
            await websocket.send_text(message)

    @app.websocket("/refused")
    async def refused(websocket: fastapi.WebSocket) -> None:
        await websocket.close()

    return app


REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/items/7?q=a%20b", {}),
    ("GET", "/items/seven", {}),
    ("POST", "/items", {"json": {"name": "x"}}),
    ("POST", "/items", {"content": b"{", "headers": {"content-type": "application/json"}}),
    ("GET", "/plain", {}),
    ("HEAD", "/plain", {}),
    ("OPTIONS", "/plain", {}),
    ("GET", "/stream", {}),
    ("GET", "/file", {}),
    ("GET", "/file", {"headers": {"range": "bytes=2-5"}}),
    ("GET", "/redirect", {}),
    ("GET", "/cookie", {"headers": {"cookie": "x=y; z=1"}}),
    ("PUT", "/body", {"content": b"x" * 300_000}),
    ("GET", "/raises", {}),
    ("GET", "/forbidden", {}),
    ("GET", "/nowhere", {}),
    ("GET", "/openapi.json", {}),
]


async def test_fastapi(loop, tmp_path, caplog):
    testclient = pytest.importorskip("fastapi.testclient")
    file = tmp_path / "file.txt"
    file.write_text("0123456789")
    app = fastapi_app(file)

    def expected() -> list[Any]:
        with testclient.TestClient(
            app, base_url="http://test", raise_server_exceptions=False, follow_redirects=False
        ) as client:
            return [seen(client.request(method, path, **more)) for method, path, more in REQUESTS]

    before = await asyncio.to_thread(expected)
    async with serving(app) as (host, port), httpx.AsyncClient() as client:
        for (method, path, more), response in zip(REQUESTS, before):
            headers = {"host": "test", "user-agent": "testclient", **more.get("headers", {})}
            url = f"http://{host}:{port}{path}"
            # httpx.AsyncClient keeps cookies otherwise.
            client.cookies.clear()
            found = await client.request(method, url, **{**more, "headers": headers})
            assert seen(found) == response, (method, path)


async def test_a_websocket_of_fastapi(loop, tmp_path):
    testclient = pytest.importorskip("fastapi.testclient")
    starlette = pytest.importorskip("starlette.websockets")
    app = fastapi_app(tmp_path / "none")

    def expected() -> list[Any]:
        with testclient.TestClient(app) as client:
            with client.websocket_connect("/echo?name=x", subprotocols=["chat"]) as websocket:
                got = [websocket.accepted_subprotocol, websocket.receive_json()]
                websocket.send_text("\u03ba" * 1000)
                got.append(websocket.receive_text())
                websocket.send_text("close")
                with pytest.raises(starlette.WebSocketDisconnect) as closed:
                    websocket.receive_text()
                got.append((closed.value.code, closed.value.reason))
            with pytest.raises(starlette.WebSocketDisconnect):
                client.websocket_connect("/refused").__enter__()
        return got

    before = await asyncio.to_thread(expected)
    async with serving(app) as (host, port):
        url = f"ws://{host}:{port}"
        async with connect(f"{url}/echo?name=x", subprotocols=["chat"]) as client:
            got: list[Any] = [client.subprotocol, json.loads(await client.recv())]
            await client.send("\u03ba" * 1000)
            got.append(await client.recv())
            await client.send("close")
            with pytest.raises(ConnectionClosed):
                await client.recv()
            got.append((client.close_code, client.close_reason))
        assert got == before
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{url}/refused")
        assert refused.value.response.status_code == 403


async def test_lifespan_and_state_of_starlette(loop):
    pytest.importorskip("starlette")
    import contextlib

    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route

    events = []

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> Any:
        events.append("start")
        yield {"pool": "open"}
        events.append("stop")

    async def where(request: Any) -> PlainTextResponse:
        return PlainTextResponse(f"{request.state.pool} {request.url} {request.scope['root_path']}")

    routes = [Route("/a", where), Mount("/sub", Starlette(routes=[Route("/b", where)]))]
    app = Starlette(routes=routes, lifespan=lifespan)
    async with server_of(app, lifespan="on") as (_, (host, port)), httpx.AsyncClient() as client:
        base = f"http://{host}:{port}"
        assert (await client.get(f"{base}/a?x=1")).text == f"open {base}/a?x=1 "
        assert (await client.get(f"{base}/sub/b")).text == f"open {base}/sub/b /sub"
    assert events == ["start", "stop"]


@pytest.fixture(scope="module")
def django() -> Any:
    django = pytest.importorskip("django")
    from django.conf import settings

    if not settings.configured:
        settings.configure(
            DEBUG=False,
            SECRET_KEY="test",
            ALLOWED_HOSTS=["*"],
            ROOT_URLCONF=__name__,
            CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}},
        )
        django.setup()
    return django


urlpatterns: list[Any] = []


async def test_django(loop, django):
    from django.core.asgi import get_asgi_application
    from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
    from django.test import AsyncClient
    from django.urls import path

    async def about(request: Any) -> Any:
        body = request.body.decode("latin-1")
        return JsonResponse({"method": request.method, "q": request.GET.get("q"), "body": body})

    def plain(request: Any) -> Any:
        return HttpResponse("from a thread", status=201, headers={"X-Name": "value"})

    def streams(request: Any) -> Any:
        async def parts() -> Any:
            for part in ("a", "b", "c"):
                yield part

        return StreamingHttpResponse(parts())

    urlpatterns[:] = [path("about", about), path("plain", plain), path("streams", streams)]
    app = get_asgi_application()
    requests = [
        ("GET", "/about?q=%C3%A9", b""),
        ("POST", "/about", b"\xff" * 100_000),
        ("GET", "/plain", b""),
        ("HEAD", "/plain", b""),
        ("GET", "/nowhere", b""),
    ]
    other = AsyncClient()
    async with serving(app, lifespan="off") as (host, port), httpx.AsyncClient() as client:
        for method, target, body in requests:
            content = {"content_type": "application/octet-stream", "data": body} if body else {}
            expected = await other.generic(method, target, **content)
            kind = {"content-type": "application/octet-stream"} if body else {}
            url = f"http://{host}:{port}{target}"
            found = await client.request(method, url, content=body, headers=kind)
            assert seen(found)[0::2] == seen(expected)[0::2], (method, target)
        assert (await client.get(f"http://{host}:{port}/streams")).text == "abc"


async def test_a_websocket_of_channels(loop, django):
    pytest.importorskip("channels")
    from asgiref.testing import ApplicationCommunicator
    from channels.generic.websocket import AsyncWebsocketConsumer

    class Chat(AsyncWebsocketConsumer):
        async def connect(self) -> None:
            await self.channel_layer.group_add("room", self.channel_name)
            await self.accept()

        async def disconnect(self, code: int) -> None:
            await self.channel_layer.group_discard("room", self.channel_name)

        async def receive(
            self, text_data: str | None = None, bytes_data: bytes | None = None
        ) -> None:
            await self.channel_layer.group_send("room", {"type": "said", "text": text_data})

        async def said(self, event: Any) -> None:
            await self.send(text_data=event["text"])

    app = Chat.as_asgi()
    client = ApplicationCommunicator(app, {"type": "websocket", "path": "/chat", "headers": []})
    await client.send_input({"type": "websocket.connect"})
    assert (await client.receive_output())["type"] == "websocket.accept"
    await client.send_input({"type": "websocket.receive", "text": "hello"})
    expected = (await client.receive_output())["text"]
    await client.send_input({"type": "websocket.disconnect", "code": 1000})
    await client.wait()
    async with serving(app, lifespan="off") as (host, port):
        url = f"ws://{host}:{port}/chat"
        async with connect(url) as one, connect(url) as two:
            await one.send("hello")
            assert [await one.recv(), await two.recv()] == [expected, expected]
