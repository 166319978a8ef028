"""Echo on the least loop that Python can have: select.epoll and a callback for each fd."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

from bench.front_ends.listening import listen

Callback = Callable[[socket.socket], None]


class EpollLoop:
    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.callbacks: dict[int, tuple[Callback, socket.socket]] = {}

    def add_reader(self, sock: socket.socket, callback: Callback) -> None:
        self.callbacks[sock.fileno()] = (callback, sock)
        self.epoll.register(sock.fileno(), select.EPOLLIN)

    def remove_fd(self, sock: socket.socket) -> None:
        self.epoll.unregister(sock.fileno())
        del self.callbacks[sock.fileno()]

    def run_forever(self) -> None:
        while True:
            for fd, _ in self.epoll.poll():
                if fd in self.callbacks:
                    callback, sock = self.callbacks[fd]
                    callback(sock)


loop = EpollLoop()


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
