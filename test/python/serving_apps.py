"""An ASGI server under test, in the test's own loop, and clients that send whatever they like."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

from erlang_loop.asgi import Config, Server


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


@contextlib.asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[tuple[str, int]]:
    """Serves at the address that it yields."""
    async with server_of(app, **options) as (_, address):
        yield address


@contextlib.asynccontextmanager
async def server_of(app: Any, **options: Any) -> AsyncIterator[tuple[Server, tuple[str, int]]]:
    server = Server(app, Config(**options))
    with listening() as listener:
        await server.start([listener])
        try:
            yield server, listener.getsockname()
        finally:
            await server.close(1.0)


async def talk(address: tuple[str, int], *parts: bytes, shut: bool = False) -> bytes:
    """Sends the parts, and returns what the server sends until it closes."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if shut:
            writer.write_eof()
        with contextlib.suppress(ConnectionError):
            return await reader.read()
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def body_of(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("disconnected")
        body += message["body"]
        if not message["more_body"]:
            return body


async def respond(send: Any, body: bytes, status: int = 200, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def about(scope: Any, receive: Any, send: Any) -> None:
    """Says what it received, as JSON."""
    body = await body_of(receive)
    seen = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "version": scope["http_version"],
        "headers": [[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]],
        "body": body.decode("latin-1"),
    }
    await respond(send, json.dumps(seen).encode())


def get(path: str = "/", *headers: str, close: bool = True, version: str = "1.1") -> bytes:
    lines = [f"GET {path} HTTP/{version}", "Host: test", *headers]
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode()


def post(body: bytes, *headers: str, close: bool = True) -> bytes:
    lines = ["POST / HTTP/1.1", "Host: test", *headers]
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def parts_of(response: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a single response."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split(" ")[1]), headers, body
