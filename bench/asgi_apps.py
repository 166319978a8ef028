"""The applications of cases/serving.py; each server gets them by name, as factories."""

from __future__ import annotations

from typing import Any

BODY = b"x" * 1024


def plain() -> Any:
    """1 KiB of text, without a framework."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"1024")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})

    return app


def api() -> Any:
    """FastAPI, which validates a number and writes JSON."""
    import fastapi

    async def item(number: int) -> dict[str, int]:
        return {"number": number}

    app = fastapi.FastAPI()
    app.get("/items/{number}")(item)
    return app
