"""Echo on erlang_loop's generator tasks, as the plain ones in epoll_generators.py."""

from __future__ import annotations

import socket
from collections.abc import Generator
from typing import Any

from erlang_loop.generators import GeneratorLoop, await_read

from bench.front_ends.listening import listen

loop = GeneratorLoop()


def handle_client(sock: socket.socket) -> Generator[Any, Any, None]:
    while True:
        yield from await_read(sock)
        data = sock.recv(4096)
        if not data:
            sock.close()
            return
        sock.sendall(data)


def accept(server: socket.socket) -> Generator[Any, Any, None]:
    while True:
        yield from await_read(server)
        connection, _ = server.accept()
        connection.setblocking(False)
        loop.create_task(handle_client(connection))


loop.create_task(accept(listen()))
loop.run_forever()
