"""The applications of cases/serving.py; each server gets them by name, as factories."""

from __future__ import annotations

import asyncio
from typing import Any

BODY = b"x" * 1024
LARGE = b"x" * 10_240


def plain() -> Any:
    """1 KiB of text, without a framework."""
    return sends(BODY, 0)


def large() -> Any:
    """10 KiB."""
    return sends(LARGE, 0)


def waits() -> Any:
    """1 KiB, after 10 ms."""
    return sends(BODY, 0.01)


def sends(body: bytes, seconds: float) -> Any:
    headers = head_of(body)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        if seconds:
            await asyncio.sleep(seconds)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def head_of(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]


async def lifespan(receive: Any, send: Any) -> None:
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


def echo() -> Any:
    """What was posted, and messages of WebSockets."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "bytes": message["bytes"]})
        else:
            body = b""
            more = True
            while more:
                message = await receive()
                body += message["body"]
                more = message["more_body"]
            await send({"type": "http.response.start", "status": 200, "headers": head_of(body)})
            await send({"type": "http.response.body", "body": body})

    return app


def api() -> Any:
    """FastAPI, which validates a number and writes JSON."""
    import fastapi

    async def item(number: int) -> dict[str, int]:
        return {"number": number}

    app = fastapi.FastAPI()
    app.get("/items/{number}")(item)
    return app
