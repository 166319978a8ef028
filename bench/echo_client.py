"""The client of the echo case: PORT CONNECTIONS SIZE SECONDS. Prints requests per second.

It checks every answer. Plain sockets and epoll, so that it costs as little as Python can.
"""

from __future__ import annotations

import select
import socket
import sys
import time


def main(port: int, connections: int, size: int, seconds: float) -> float:
    messages = {}
    poll = select.epoll()
    for number in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        messages[sock.fileno()] = (sock, number.to_bytes(2, "big") * (size // 2))
        poll.register(sock, select.EPOLLIN)
    for sock, message in messages.values():
        sock.sendall(message)
    count = 0
    started = time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        for fd, _ in poll.poll(1):
            sock, message = messages[fd]
            answer = sock.recv(size, socket.MSG_WAITALL)
            if answer != message:
                sys.exit(f"connection {fd} was answered wrongly")
            sock.send(message)
            count += 1
    return count / passed


if __name__ == "__main__":
    port, connections, size, seconds = sys.argv[1:]
    print(main(int(port), int(connections), int(size), float(seconds)))
