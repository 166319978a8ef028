"""Echo on erlang_loop's callback loop, as the plain one in epoll_callbacks.py."""

from __future__ import annotations

import socket

from erlang_loop.callbacks import CallbackLoop

from bench.front_ends.listening import listen

loop = CallbackLoop()


def handle_client(sock: socket.socket) -> None:
    data = sock.recv(4096)
    if data:
        sock.sendall(data)
    else:
        loop.remove_fd(sock)
        sock.close()


def accept(server: socket.socket) -> None:
    connection, _ = server.accept()
    connection.setblocking(False)
    loop.add_reader(connection, handle_client)


loop.add_reader(listen(), accept)
loop.run_forever()
