"""The server of one loop that Erlang started: `erl_src/py_asgi_worker.erl` calls these."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from erlang_loop.asgi.config import from_options
from erlang_loop.asgi.handlers import with_handlers
from erlang_loop.asgi.importing import forget_modules, import_app
from erlang_loop.asgi.lifespan import LifespanError
from erlang_loop.asgi.server import Server
from erlang_loop.asgi.wsgi import WsgiApp

#: Of each loop that has one, and the task that holds it.
_servers: dict[asyncio.AbstractEventLoop, tuple[Server, asyncio.Task[None]]] = {}


async def start(
    fd: int,
    app: str,
    fresh: bool,
    importing: Any,
    options: dict[str, Any],
    handlers: dict[str, Any],
) -> None:
    """Imports the application and serves the listening socket `fd`, which stays Erlang's."""
    options = dict(options)
    if (certificate := options.pop("ssl", None)) is not None:
        options["ssl"] = context_of(certificate)
    config = from_options(options)
    importing = dict(importing)
    wsgi = str(importing.pop("interface", "asgi")) == "wsgi"
    if fresh:
        forget_modules(importing.get("app_dir"))
    application = import_app(app, **importing)
    if wsgi:
        application = WsgiApp(application)
    if handlers:
        application = with_handlers(application, handlers)
    server = Server(application, config)
    # The constructor owns its descriptor, so it gets a copy, and `start` makes another.
    with socket.socket(fileno=socket.dup(fd)) as listener:
        try:
            await server.start([listener])
        except LifespanError as error:
            # Erlang gets one traceback: that of the application.
            raise error.__cause__ or error from None
    _servers[asyncio.get_running_loop()] = server, asyncio.ensure_future(hold(server))


async def hold(server: Server) -> None:
    """Until the server ends, or the loop does: it cancels its tasks, also if it was killed."""
    try:
        await asyncio.Event().wait()
    finally:
        server.stop_listening()
        del _servers[asyncio.get_running_loop()]


def current() -> Server:
    """The server of this loop."""
    return _servers[asyncio.get_running_loop()][0]


def context_of(options: dict[str, str]) -> ssl.SSLContext:
    """TLS for a server."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options["certfile"], options.get("keyfile"), options.get("password"))
    context.set_alpn_protocols(["http/1.1"])
    return context


async def finished() -> None:
    """Returns once the server has served as many requests as it may."""
    await current().finished.wait()


async def close(timeout: float, at_once: bool) -> bool:
    """Drains and ends the server. False: requests were cancelled."""
    server, holder = _servers[asyncio.get_running_loop()]
    try:
        drained = await server.drain(timeout, at_once=at_once)
        await server.close(None if drained else 0)
    finally:
        holder.cancel()
    return drained


async def counts() -> dict[str, int]:
    """Connections and requests."""
    return current().counts()
