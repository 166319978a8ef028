"""`python -m erlang_loop.asgi main:app`: a server, or several, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from typing import Any

from erlang_loop.asgi import sockets
from erlang_loop.asgi.config import Config, ConfigError
from erlang_loop.asgi.importing import AppImportError, import_app
from erlang_loop.asgi.lifespan import LifespanError
from erlang_loop.asgi.server import Server
from erlang_loop.asgi.workers import Workers, parent
from erlang_loop.asgi.wsgi import WsgiApp

logger = logging.getLogger("erlang_loop.asgi")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def parser() -> argparse.ArgumentParser:
    """The options, named as uvicorn's where they mean the same."""
    made = argparse.ArgumentParser(prog="erlang_loop.asgi", description=__doc__)
    add = made.add_argument
    add("app", help="module:attribute")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000, help="0: any free port")
    add("--uds", help="listen at this path instead")
    add("--fd", type=int, help="listen on this inherited descriptor instead")
    add("--app-dir", help="where modules are, before the rest of sys.path (default: here)")
    add("--factory", action="store_true", help="APP is a function that returns the application")
    add("--interface", choices=("asgi", "wsgi"), default="asgi")
    add("--lifespan", choices=("auto", "on", "off"), default="auto")
    add("--root-path", default="")
    add(
        "--proxy-headers",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="X-Forwarded-For and X-Forwarded-Proto of trusted proxies describe the client",
    )
    add("--forwarded-allow-ips", help="the proxies: addresses and networks, or * (default: local)")
    add("--log-level", default="info", choices=("critical", "error", "warning", "info", "debug"))
    switch = argparse.BooleanOptionalAction
    add("--access-log", action=switch, default=False)
    add("--server-header", action=switch, default=True)
    add("--date-header", action=switch, default=True)
    add("--header", action="append", default=[], metavar="NAME:VALUE")
    add(
        "--proxy-protocol",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="each connection begins with the PROXY protocol, version 1 or 2",
    )
    add(
        "--workers",
        type=positive,
        default=1,
        help="processes that serve, each on a core of its own",
    )
    add("--backlog", type=int, default=2048)
    add("--reuse-port", action="store_true", help="other processes may listen on this port, too")
    add("--limit-concurrency", type=int, default=0)
    add("--limit-max-requests", type=int, default=0)
    add("--limit-request-head", type=int, default=64 * 1024)
    add("--limit-request-body", type=int, default=0)
    add("--timeout-keep-alive", type=int, default=5)
    add("--timeout-request-head", type=int, default=30)
    add("--timeout-graceful-shutdown", type=float, default=30.0)
    add("--timeout-disconnect", type=int)
    add("--ws-max-size", type=int, default=16 * 1024 * 1024)
    add("--ws-ping-interval", type=float, default=20.0)
    add("--ws-ping-timeout", type=float, default=20.0)
    add("--ws-per-message-deflate", action=switch, default=True)
    add("--ssl-certfile")
    add("--ssl-keyfile")
    add("--ssl-keyfile-password")
    add("--ssl-ca-certs", help="clients must have a certificate of these authorities")
    add("--ssl-ciphers")
    return made


def positive(text: str) -> int:
    """A number of workers."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 after a signal, 1 if the start failed (2: wrong options)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(levelname)s: %(message)s", stream=sys.stderr
    )
    try:
        config = config_of(options)
        listener = sockets.listen(
            host=options.host,
            port=options.port,
            uds=options.uds,
            fd=options.fd,
            backlog=options.backlog,
            reuse_port=options.reuse_port,
        )
    except (ConfigError, OSError) as error:
        print(f"erlang_loop.asgi: {error}", file=sys.stderr)
        return 1
    try:
        if options.workers > 1:
            return asyncio.run(serve_by_workers(options.workers, listener, config, arguments))
        app = import_app(options.app, app_dir=options.app_dir, factory=options.factory)
        if options.interface == "wsgi":
            app = WsgiApp(app)
        return asyncio.run(serve(app, listener, config))
    except (AppImportError, LifespanError) as error:
        logger.error("%s", error, exc_info=error.__cause__)
        return 1
    finally:
        listener.close()
        if options.uds is not None:
            os.unlink(options.uds)


def config_of(options: argparse.Namespace) -> Config:
    """The server's part of the options."""
    pairs = [tuple(header.partition(":")[::2]) for header in options.header]
    values: dict[str, Any] = vars(options)
    names = Config.__dataclass_fields__.keys() - {"ssl", "headers", "access_log_level"}
    return Config(
        headers=[(name.strip(), value.strip()) for name, value in pairs],
        ssl=ssl_context(options),
        **{name: values[name] for name in names},
    )


def ssl_context(options: argparse.Namespace) -> ssl.SSLContext | None:
    """As the standard library makes it, with its defaults."""
    if options.ssl_certfile is None:
        if options.ssl_keyfile or options.ssl_ca_certs:
            raise ConfigError("TLS needs --ssl-certfile")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=options.ssl_ca_certs)
    if options.ssl_ca_certs is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    try:
        password = options.ssl_keyfile_password
        context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"invalid certificate {options.ssl_certfile}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    if options.ssl_ciphers is not None:
        context.set_ciphers(options.ssl_ciphers)
    return context


async def serve_by_workers(
    count: int, listener: Any, config: Config, arguments: Sequence[str]
) -> int:
    """Starts the workers, and keeps them until a signal."""

    def all_serve() -> None:
        name = sockets.name_of(listener, config.ssl is not None)
        logger.info("Serving on %s with %d workers", name, count)

    return await Workers(count, listener, arguments, all_serve).run()


async def serve(app: Any, listener: Any, config: Config) -> int:
    """Serves until a signal, then drains. A second signal cancels what is left."""
    loop = asyncio.get_running_loop()
    server = Server(app, config)
    stopped = asyncio.Event()
    stopping: list[asyncio.Task[bool]] = []

    replaced = False

    def replace(others_serve: bool) -> None:
        nonlocal replaced
        replaced = others_serve
        stop()

    def stop() -> None:
        if stopped.is_set():
            for task in stopping:
                task.cancel()
        stopped.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    above = parent()
    if above is not None:
        above.watch(replace)
    await server.start([listener])
    if above is None:
        logger.info("Serving on %s", sockets.name_of(listener, config.ssl is not None))
    else:
        above.tell()
    ends = [asyncio.ensure_future(event.wait()) for event in (stopped, server.finished)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    draining = asyncio.ensure_future(server.drain(at_once=not replaced))
    stopping.append(draining)
    await asyncio.wait(stopping)
    drained = not draining.cancelled() and draining.result()
    await server.close(None if drained else 0)
    return 0
