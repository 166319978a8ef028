"""Erlang in the same port: funs that handle paths before the application sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import erlang

#: Bytes of a request's body: Erlang gets it whole.
MOST_BODY = 1024 * 1024


def with_handlers(app: Any, handlers: Mapping[str, Any]) -> Any:
    """The application behind the handlers; the longest matching prefix decides."""
    prefixes = sorted(handlers, key=len, reverse=True)

    async def routed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            for prefix in prefixes:
                if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                    await handle(handlers[prefix], scope, receive, send)
                    return
        await app(scope, receive, send)

    return routed


async def handle(fun: Any, scope: Any, receive: Any, send: Any) -> None:
    """Calls the fun with the request, and sends its response."""
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        more = message["more_body"]
        if len(body) > MOST_BODY:
            await respond(send, 413, [], b"the body is too large")
            return
    request = {
        erlang.Atom("method"): scope["method"].encode(),
        erlang.Atom("path"): scope["path"].encode(),
        erlang.Atom("query"): scope["query_string"],
        erlang.Atom("headers"): scope["headers"],
        erlang.Atom("body"): body,
    }
    status, headers, reply = await fun.async_call(request)
    await respond(send, status, headers, reply)


async def respond(send: Any, status: int, headers: Any, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
