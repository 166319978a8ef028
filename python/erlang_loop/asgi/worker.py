"""The server of one loop that Erlang started: `erl_src/py_asgi_worker.erl` calls these."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import Any

from erlang_loop.asgi.config import from_options
from erlang_loop.asgi.handlers import with_handlers
from erlang_loop.asgi.importing import forget_modules, import_app
from erlang_loop.asgi.lifespan import LifespanError
from erlang_loop.asgi.prefixes import Prefixes
from erlang_loop.asgi.server import Server, access_logger
from erlang_loop.asgi.wsgi import WsgiApp

#: Shown by `logger` with its default level; Python's own are WARNING and INFO.
NOTICE = 25
#: Of each loop that has one, and the task that holds it.
_servers: dict[asyncio.AbstractEventLoop, tuple[Server, asyncio.Task[None]]] = {}


async def start(
    listening: int | str | None,
    app: str | dict[str, str],
    fresh: bool,
    importing: Any,
    options: dict[str, Any],
    handlers: dict[str, Any],
) -> None:
    """Imports the application and serves a copy of Erlang's listening socket: a descriptor, the
    path where another process hands it over, or none."""
    with contextlib.ExitStack() as stack:
        # The server makes copies of its own.
        listeners = [stack.enter_context(listener) for listener in copies(listening)]
        options = {"access_log_level": NOTICE, **options}
        if (certificate := options.pop("ssl", None)) is not None:
            options["ssl"] = context_of(certificate)
        config = from_options(options)
        if config.access_log and access_logger.level == logging.NOTSET:
            access_logger.setLevel(config.access_log_level)
        importing = dict(importing)
        wsgi = str(importing.pop("interface", "asgi")) == "wsgi"
        if fresh:
            forget_modules(importing.get("app_dir"))

        def imported(name: str) -> Any:
            application = import_app(name, **importing)
            return WsgiApp(application) if wsgi else application

        if isinstance(app, str):
            application = imported(app)
        else:
            apps = {prefix: imported(name) for prefix, name in app.items()}
            application = Prefixes(apps, config.lifespan)
        if handlers:
            application = with_handlers(application, handlers)
        server = Server(application, config)
        try:
            await server.start(listeners)
        except LifespanError as error:
            # Erlang gets one traceback: that of the application.
            raise error.__cause__ or error from None
    _servers[asyncio.get_running_loop()] = server, asyncio.ensure_future(hold(server))


def copies(listening: int | str | None) -> list[socket.socket]:
    """Of the listening socket, if there is one."""
    if listening is None:
        return []
    if isinstance(listening, int):
        return [socket.socket(fileno=socket.dup(listening))]
    with socket.socket(socket.AF_UNIX) as sender:
        sender.connect(listening)
        _, descriptors, _, _ = socket.recv_fds(sender, 1, 1)
    return [socket.socket(fileno=descriptors[0])]


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
