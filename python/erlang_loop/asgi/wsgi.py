"""WSGI applications: each request on a thread of the loop's executor."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import IO, Any

#: Larger bodies go to a temporary file.
IN_MEMORY = 64 * 1024


class WsgiApp:
    """A WSGI application as an ASGI application."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            raise RuntimeError("a WSGI application has no lifespan")
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as body:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body.write(message["body"])
                more = message["more_body"]
            length = body.tell()
            body.seek(0)
            loop = asyncio.get_running_loop()
            response = Response(loop, send)
            environ = environ_of(scope, body, length)
            await loop.run_in_executor(None, response.run, self.app, environ)


class Response:
    """What the application says on its thread, sent by the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Any) -> None:
        self._loop = loop
        self._send = send
        self._start: dict[str, Any] | None = None
        self._begun = False

    def run(self, app: Any, environ: dict[str, Any]) -> None:
        """Calls the application and sends its parts; the thread waits while the client is slow."""
        parts: Iterable[bytes] = app(environ, self.start_response)
        try:
            for part in parts:
                if part:
                    self.write(part)
            self._send_now({"type": "http.response.body"})
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """WSGI's: a second call needs `exc_info`, and raises it if the head is sent already."""
        if exc_info is not None:
            try:
                if self._begun:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self._start is not None:
            raise RuntimeError("start_response was called before")
        self._start = {
            "type": "http.response.start",
            "status": int(status.split(" ", 1)[0]),
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers
            ],
        }
        return self.write

    def write(self, data: bytes) -> None:
        """Sends a part of the body."""
        self._send_now({"type": "http.response.body", "body": data, "more_body": True})

    def _send_now(self, message: dict[str, Any]) -> None:
        if self._start is None:
            raise RuntimeError("the application has not called start_response")
        messages = [message] if self._begun else [self._start, message]
        self._begun = True
        asyncio.run_coroutine_threadsafe(self._send_all(messages), self._loop).result()

    async def _send_all(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            await self._send(message)


def environ_of(scope: dict[str, Any], body: IO[bytes], length: int) -> dict[str, Any]:
    """The environment of PEP 3333: text is bytes decoded as latin-1."""
    root = scope["root_path"]
    server = scope["server"] or ("", None)
    client = scope["client"] or ("", None)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": latin_1(root),
        "PATH_INFO": latin_1(scope["path"].removeprefix(root)),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or ""),
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1] or ""),
        # The body has been received: chunks are gone.
        "CONTENT_LENGTH": str(length),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        # A header with an underscore would look like the one with a dash that a proxy has set.
        if b"_" in name or name in (b"content-length", b"transfer-encoding", b"proxy"):
            continue
        key = name.decode("latin-1").upper().replace("-", "_")
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    return environ


def latin_1(text: str) -> str:
    return text.encode("utf-8").decode("latin-1")
