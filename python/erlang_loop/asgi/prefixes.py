"""Several applications behind one port: a path's application is that of its longest prefix.

Each has its own lifespan and `state`. The prefix is added to `root_path`, and `path` stays whole:
the ASGI specification has it so for mounted applications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from erlang_loop.asgi.lifespan import Lifespan, LifespanError


class Prefixes:
    """An ASGI application that consists of others."""

    def __init__(self, apps: Mapping[str, Any], lifespan: str) -> None:
        self._apps = {
            prefix.rstrip("/"): Lifespan(apps[prefix], lifespan)
            for prefix in sorted(apps, key=len, reverse=True)
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        for prefix, one in self._apps.items():
            if path == prefix or path.startswith(f"{prefix}/"):
                inner = {**scope, "root_path": root + prefix, "state": dict(one.state)}
                await one.app(inner, receive, send)
                return
        await refuse(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        """Starts the applications one after another, and ends them in the opposite order."""
        started: list[Lifespan] = []
        await receive()
        try:
            for one in self._apps.values():
                await one.startup()
                started.append(one)
        except LifespanError as error:
            await end(started)
            await send({"type": "lifespan.startup.failed", "message": text(error)})
            raise error.__cause__ or error from None
        await send({"type": "lifespan.startup.complete"})
        await receive()
        failed = await end(started)
        if failed is not None:
            await send({"type": "lifespan.shutdown.failed", "message": text(failed)})
            raise failed.__cause__ or failed from None
        await send({"type": "lifespan.shutdown.complete"})


def text(error: LifespanError) -> str:
    return repr(error.__cause__) if error.__cause__ else str(error)


async def end(started: list[Lifespan]) -> LifespanError | None:
    """All of them; the first error is returned."""
    failed = None
    for one in reversed(started):
        try:
            await one.shutdown()
        except LifespanError as error:
            failed = failed or error
    return failed


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """No application has this path."""
    if scope["type"] == "websocket":
        await receive()
        # Before it is accepted, this is a response with the status 403.
        await send({"type": "websocket.close", "code": 1000})
        return
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": b"Not Found"})
