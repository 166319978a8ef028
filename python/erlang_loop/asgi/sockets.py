"""Listening sockets."""

from __future__ import annotations

import os
import socket
import stat

from erlang_loop.asgi.config import ConfigError


def listen(
    *,
    host: str,
    port: int,
    uds: str | None,
    fd: int | None,
    backlog: int,
    reuse_port: bool = False,
) -> socket.socket:
    """One listening socket: inherited, of a path, or of an address. OSError names which.

    With `reuse_port` the kernel shares the connections of the address among all that listen so.
    """
    if reuse_port and (fd is not None or uds is not None):
        raise ConfigError("reuse_port is for a host and a port")
    if fd is not None:
        return socket.socket(fileno=fd)
    if uds is not None:
        return listen_at_path(uds, backlog)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{error.strerror}: {host}:{port}") from None
    listener.setblocking(False)
    return listener


def listen_at_path(path: str, backlog: int) -> socket.socket:
    """A socket that a dead server left behind is replaced; anything else is not."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode) and not accepts(path):
            os.unlink(path)
        listener.bind(path)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{error.strerror}: {path}") from None
    listener.setblocking(False)
    return listener


def accepts(path: str) -> bool:
    """Whether a server listens at this path."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def name_of(listener: socket.socket, secure: bool) -> str:
    """As a client would write it."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{host}:{port}"
