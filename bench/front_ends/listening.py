"""The listening socket of the echo servers in this folder."""

from __future__ import annotations

import socket

from bench import conditions


def listen() -> socket.socket:
    """Prints its port: bench/cases/front_ends.py waits for it."""
    conditions.prepare()
    # With its protocol, as in bench/cases/web.py: otherwise asyncio leaves TCP_NODELAY off.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", 0))
    server.listen(4096)
    server.setblocking(False)
    print(server.getsockname()[1], flush=True)
    return server
