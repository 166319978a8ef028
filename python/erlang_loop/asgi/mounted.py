"""A request that another Erlang server passes to the application: `py_asgi:handle/2`.

`erl_src/py_asgi_mount.erl` calls `handle`, with a fun that the application's messages go through.
Each call of the fun waits for the other server, so neither side is faster than the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any
from urllib.parse import unquote

import erlang

from erlang_loop._native import DisconnectedError
from erlang_loop.asgi.running import EXITS, is_disconnect
from erlang_loop.asgi.server import Server
from erlang_loop.asgi.worker import current

logger = logging.getLogger("erlang_loop.asgi")
BEGIN = erlang.Atom("begin")
READ = erlang.Atom("read")
START = erlang.Atom("start")
MORE = erlang.Atom("more")
LAST = erlang.Atom("last")
OK = erlang.Atom("ok")


async def handle(request: dict[str, Any], ask: Any) -> bool:
    """Whether the response is complete. What is wrong with the application is logged."""
    await ask.async_call(BEGIN)
    server = current()
    with server.mounting():
        return await Mounted(server, request, ask).run()


class Mounted:
    """One request with its response."""

    def __init__(self, server: Server, request: dict[str, Any], ask: Any) -> None:
        self.server = server
        self.scope = scope_of(server, request)
        self._ask = ask
        #: One piece of the body is asked for at a time.
        self._reading = asyncio.Lock()
        self._end_received = False
        self._start: tuple[Any, ...] | None = None
        self._begun = False
        self._complete = False
        self._disconnected = False
        #: The response is complete, or the client has gone.
        self._over = asyncio.Event()

    async def run(self) -> bool:
        began = time.monotonic()
        name = f"{self.scope['method']} {self.scope['path']}"
        try:
            await self.server.app(self.scope, self.receive, self.send)
        except (Exception, *EXITS) as error:
            if not (self._disconnected and is_disconnect(error)):
                logger.exception("Exception in the ASGI application, %s", name)
            await self._fail()
        else:
            if not self._over.is_set():
                logger.error("The ASGI application returned without a complete response, %s", name)
                await self._fail()
        if self.server.log is not None and self._start is not None:
            self.server.log(self.scope, self._start[1], time.monotonic() - began)
        return self._complete

    async def _fail(self) -> None:
        if not self._begun and not self._over.is_set():
            self._start = (START, 500, [(b"content-type", b"text/plain")])
            with contextlib.suppress(DisconnectedError):
                await self._send_body(b"Internal Server Error", False)

    async def receive(self) -> dict[str, Any]:
        async with self._reading:
            if not self._end_received and not self._over.is_set():
                piece = await self._ask.async_call(READ)
                if isinstance(piece, tuple):
                    self._end_received, body = piece
                    more = not self._end_received
                    return {"type": "http.request", "body": body, "more_body": more}
                self._lost()
        # The other server finds that its client has gone when it sends to it.
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if self._disconnected:
            raise DisconnectedError("the client has disconnected")
        if self._complete:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}, the response is complete")
        expected = "http.response.start" if self._start is None else "http.response.body"
        if kind != expected:
            raise RuntimeError(f"Expected ASGI message {expected!r}, but got {kind!r}")
        if self._start is None:
            pairs = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            self._start = (START, int(message["status"]), pairs)
        else:
            await self._send_body(bytes(message.get("body", b"")), message.get("more_body", False))

    async def _send_body(self, data: bytes, more: bool) -> None:
        assert self._start is not None
        if not self._begun:
            # Not before there is a body: until then an exception can become a 500.
            self._begun = True
            await self._tell(self._start)
        await self._tell((MORE if more else LAST, data))
        if not more:
            self._complete = True
            self._over.set()

    async def _tell(self, part: tuple[Any, ...]) -> None:
        if await self._ask.async_call(part) != OK:
            self._lost()
            raise DisconnectedError("the client has disconnected")

    def _lost(self) -> None:
        self._disconnected = True
        self._over.set()


def scope_of(server: Server, request: dict[str, Any]) -> dict[str, Any]:
    """As that of a request of the server's own port; without extensions."""
    raw: bytes = request["path"]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request["method"],
        "scheme": str(request["scheme"]),
        "path": unquote(raw.decode("latin-1"), errors="replace"),
        "raw_path": raw,
        "query_string": request["query"],
        "root_path": request["root_path"] or server.config.root_path,
        "headers": [(name.lower(), value) for name, value in request["headers"]],
        "client": request["client"],
        "server": None,
        "state": dict(server.lifespan.state),
    }
