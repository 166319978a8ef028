"""The listening socket of the echo servers in this folder."""

from __future__ import annotations

import socket

from bench import conditions


def listen() -> socket.socket:
    """Tells its port on stdout: bench/cases/front_ends.py waits for it."""
    conditions.prepare()
    server = socket.create_server(("127.0.0.1", 0), backlog=4096)
    server.setblocking(False)
    print(server.getsockname()[1], flush=True)
    return server
