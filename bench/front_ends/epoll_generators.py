"""Echo on a generator loop in plain Python: select.epoll wakes the task that waits for an fd."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Generator

from bench.front_ends.listening import listen

Task = Generator[socket.socket, None, None]


class EpollLoop:
    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.waiting: dict[int, Task] = {}
        self.ready: deque[Task] = deque()

    def create_task(self, task: Task) -> None:
        self.ready.append(task)

    def run_forever(self) -> None:
        while True:
            while self.ready:
                task = self.ready.popleft()
                try:
                    sock = task.send(None)
                except StopIteration:
                    continue
                self.waiting[sock.fileno()] = task
                self.epoll.register(sock.fileno(), select.EPOLLIN)
            for fd, _ in self.epoll.poll():
                self.epoll.unregister(fd)
                self.ready.append(self.waiting.pop(fd))


loop = EpollLoop()


def await_read(sock: socket.socket) -> Task:
    yield sock


def handle_client(sock: socket.socket) -> Task:
    while True:
        yield from await_read(sock)
        data = sock.recv(4096)
        if not data:
            sock.close()
            return
        sock.sendall(data)


def accept(server: socket.socket) -> Task:
    while True:
        yield from await_read(server)
        connection, _ = server.accept()
        connection.setblocking(False)
        loop.create_task(handle_client(connection))


loop.create_task(accept(listen()))
loop.run_forever()
