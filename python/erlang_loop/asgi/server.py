"""Listening, draining, closing: the life of one server on one loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from erlang_loop._native import HttpServer, Loop
from erlang_loop.asgi.config import Config
from erlang_loop.asgi.lifespan import Lifespan
from erlang_loop.asgi.proxies import behind_proxies
from erlang_loop.asgi.running import runner
from erlang_loop.asgi.websocket import WebSocket

logger = logging.getLogger("erlang_loop.asgi")
access_logger = logging.getLogger("erlang_loop.asgi.access")
AccessLog = Callable[[dict[str, Any], int, float], None]


class Server:
    """`start`, then `close`; in between, `drain` as often as you like."""

    def __init__(self, app: Any, config: Config | None = None) -> None:
        self.config = config or Config()
        trusted = self.config.trusted_proxies
        self.app = app if trusted is None else behind_proxies(app, trusted)
        self.lifespan = Lifespan(app, self.config.lifespan)
        #: Set when the server should end by itself: `limit_max_requests`.
        self.finished = asyncio.Event()
        self._empty = asyncio.Event()
        self._listeners: list[asyncio.Server] = []
        self._native: HttpServer | None = None
        self._websockets: set[WebSocket] = set()
        self._draining = False
        #: Of each response, if there is an access log.
        self.log = access_log(self.config) if self.config.access_log else None
        self._mounted = 0
        self._mounted_ever = 0

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Runs the application's startup, then accepts connections. The sockets belong to the
        caller: `close` does not close them."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, Loop):
            raise RuntimeError("the server needs an ErlangEventLoop")
        await self.lifespan.startup()
        config = self.config
        self._native = HttpServer(
            loop,
            runner(self.app),
            self._upgraded,
            {
                "asgi": {"version": "3.0", "spec_version": "2.4"},
                "scheme": "http" if config.ssl is None else "https",
                "root_path": config.root_path,
                "state": self.lifespan.state,
                "extensions": {"http.response.pathsend": {}, "http.response.trailers": {}},
            },
            access_log=self.log,
            notify=self._notified,
            default_headers=config.default_headers,
            date_header=config.date_header,
            head_size=config.limit_request_head,
            body_size=config.limit_request_body,
            concurrency=config.limit_concurrency,
            max_requests=config.limit_max_requests,
            head_time=config.timeout_request_head,
            keep_alive_time=config.timeout_keep_alive,
            disconnect_grace=config.timeout_disconnect,
            proxy_protocol=config.proxy_protocol,
        )
        for listener in sockets:
            # A copy: closing the server leaves the caller's socket open, and its queue with it.
            copy = listener.dup()
            copy.setblocking(False)
            make = (
                loop.create_unix_server if listener.family == socket.AF_UNIX else loop.create_server
            )
            options: dict[str, Any] = {"sock": copy, "backlog": config.backlog}
            if config.ssl is not None:
                options["ssl"] = config.ssl
            self._listeners.append(await make(self._native, **options))

    def counts(self) -> dict[str, int]:
        """How many connections and WebSockets are open, requests in progress, requests served."""
        connections, active, served = self._native.counts() if self._native else (0, 0, 0)
        return {
            "connections": connections,
            "websockets": len(self._websockets),
            "active": active + self._mounted,
            "served": served + self._mounted_ever,
        }

    @contextlib.contextmanager
    def mounting(self) -> Iterator[None]:
        """While a request of another server runs: `drain` waits for it."""
        self._mounted += 1
        self._mounted_ever += 1
        if self._mounted_ever == self.config.limit_max_requests:
            self.finished.set()
        try:
            yield
        finally:
            self._mounted -= 1
            if self._left() == 0:
                self._empty.set()

    async def drain(self, timeout: float | None = None, *, at_once: bool = True) -> bool:
        """Accepts nothing more and waits until all connections have ended: whether they have.

        Idle connections are closed `at_once`. Otherwise another server goes on with this
        address: they may send one more request, whose response says that it is the last.
        WebSockets are closed with 1012, "service restart".
        """
        self.stop_listening()
        if self._native is None:
            return True
        self._draining = True
        self._native.drain(at_once)
        for websocket in list(self._websockets):
            websocket.restart()
        if self._left() == 0:
            return True
        try:
            if timeout is None:
                timeout = self.config.timeout_graceful_shutdown
            await asyncio.wait_for(self._empty.wait(), timeout)
        except TimeoutError:
            return False
        return True

    async def close(self, timeout: float | None = None, *, at_once: bool = True) -> None:
        """Drains, cancels what is left after the timeout, and runs the application's shutdown."""
        if not await self.drain(timeout, at_once=at_once) and self._native is not None:
            logger.warning("%d connections have not ended in time and are closed", self._left())
            self._native.abort()
            for websocket in list(self._websockets):
                websocket.abort()
            # Requests that are cancelled run their finally blocks.
            await self.drain(1.0)
        await self.lifespan.shutdown()

    def stop_listening(self) -> None:
        """Accepts nothing more."""
        for listener in self._listeners:
            listener.close()

    def _left(self) -> int:
        """Connections that have not ended."""
        connections = self._native.counts()[0] if self._native else 0
        return connections + len(self._websockets) + self._mounted

    def _notified(self, event: str) -> None:
        if event == "max_requests":
            self.finished.set()
        elif self._left() == 0:
            self._empty.set()

    def _upgraded(self, transport: Any, scope: dict[str, Any], rest: bytes) -> None:
        """A client asks for a WebSocket."""
        websocket = WebSocket(self.app, self.config, self._websocket_ended)
        self._websockets.add(websocket)
        websocket.begin(transport, scope, rest)
        if self._draining:
            websocket.restart()

    def _websocket_ended(self, websocket: WebSocket) -> None:
        self._websockets.discard(websocket)
        if self._draining and self._left() == 0:
            self._empty.set()


def access_log(config: Config) -> AccessLog:
    """One record for each response, with its parts as `extra`."""
    level = config.access_log_level

    def log(scope: dict[str, Any], status: int, seconds: float) -> None:
        client = scope["client"]
        address = f"{client[0]}:{client[1]}" if client else "-"
        query = scope["query_string"]
        target = scope["path"] + (f"?{query.decode('latin-1')}" if query else "")
        # A log line is one line.
        target = target.encode("unicode_escape").decode("ascii")
        milliseconds = round(seconds * 1000, 3)
        access_logger.log(
            level,
            '%s "%s %s HTTP/%s" %d %.1f ms',
            address,
            scope["method"],
            target,
            scope["http_version"],
            status,
            milliseconds,
            extra={
                "client": address,
                "method": scope["method"],
                "target": target,
                "status": status,
                "milliseconds": milliseconds,
            },
        )

    return log


async def serve(app: Any, sockets: Sequence[socket.socket], config: Config | None = None) -> None:
    """Serves until it is cancelled, then closes."""
    server = Server(app, config)
    await server.start(sockets)
    try:
        await server.finished.wait()
    finally:
        await server.close()
