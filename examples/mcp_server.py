"""The Python half of mcp_server.escript: a server of the Model Context Protocol with one tool.

A plain ASGI application: it replies to JSON-RPC in the body of a POST, which is the protocol's
transport `Streamable HTTP` without streams. Nothing but the standard library is needed.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import socket
from typing import Any

from erlang_loop.asgi import Config, Server

TOOLS = [
    {
        "name": "add",
        "description": "Adds two numbers",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
    {
        "name": "crash",
        "description": "Reads address 0, as a bad extension module would",
        "inputSchema": {"type": "object"},
    },
]


def start(port: int) -> None:
    """Init code of the loop: returns when the server listens."""
    listener = socket.create_server(("127.0.0.1", port))
    server = Server(app, Config(lifespan="off"))
    asyncio.get_event_loop().run_until_complete(server.start([listener]))
    listener.close()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message.get("more_body"):
            break
    status, reply = respond(scope, body)
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


def respond(scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    if scope["method"] != "POST":
        return 405, b""
    try:
        request = json.loads(body)
        number, method = request.get("id"), request["method"]
    except (ValueError, KeyError, AttributeError):
        return 400, encode(None, error={"code": -32600, "message": "not a JSON-RPC request"})
    if number is None:
        return 202, b""
    try:
        return 200, encode(number, result=call(method, request.get("params", {})))
    except (KeyError, TypeError) as error:
        return 200, encode(number, error={"code": -32602, "message": f"invalid: {error}"})


def encode(number: Any, **content: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, **content}).encode()


def call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "examples", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": use(params["name"], params["arguments"])}]}
    raise KeyError(method)


def use(name: str, arguments: dict[str, Any]) -> str:
    if name == "crash":
        ctypes.string_at(0)
    if name != "add":
        raise KeyError(name)
    return str(arguments["a"] + arguments["b"])
