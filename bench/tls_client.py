"""The client of the TLS case: PORT AUTHORITY CONNECTIONS SIZE SECONDS SERVER_PID.

In Python, with OpenSSL, as the native client has no TLS. It compares every reply, and prints the
rate, the server's CPU time for a request and the median latency as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import statistics
import sys
import time


def cpu_seconds(pid: int) -> float:
    """A process's CPU time, by Linux's formula for the number of its clock."""
    return time.clock_gettime((~pid << 3) | 2)


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="localhost")


def exchange(
    socks: dict[int, ssl.SSLSocket], messages: dict[int, bytes], poll: select.epoll, seconds: float
) -> list[float]:
    """Each connection sends again after each reply until the time is over. Returns latencies."""
    begun = {}
    for fd, sock in socks.items():
        begun[fd] = time.perf_counter()
        sock.sendall(messages[fd])
    taken = []
    end = time.perf_counter() + seconds
    waiting = set(socks)
    while waiting:
        ready = poll.poll(10)
        if not ready:
            sys.exit("no reply for 10 s")
        for fd, _ in ready:
            sock, message = socks[fd], messages[fd]
            reply = b""
            while len(reply) < len(message):
                more = sock.recv(len(message) - len(reply))
                if not more:
                    sys.exit("the server closed the connection")
                reply += more
            if reply != message:
                sys.exit("the reply is not what was sent")
            now = time.perf_counter()
            taken.append(now - begun[fd])
            if now < end:
                begun[fd] = now
                sock.sendall(message)
            else:
                waiting.discard(fd)
    return taken


def main(
    port: int, authority: str, connections: int, size: int, seconds: float, pid: int
) -> dict[str, float]:
    context = ssl.create_default_context(cafile=authority)
    poll = select.epoll()
    socks, messages = {}, {}
    for number in range(connections):
        sock = connect(port, context)
        socks[sock.fileno()] = sock
        messages[sock.fileno()] = number.to_bytes(2, "big") * (size // 2)
        poll.register(sock, select.EPOLLIN)
    exchange(socks, messages, poll, min(0.2, seconds / 3))
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    taken = exchange(socks, messages, poll, seconds)
    passed, used = time.perf_counter() - began, cpu_seconds(pid) - cpu
    for sock in socks.values():
        sock.close()
    return {
        "rate": len(taken) / passed,
        "server_cpu_us": used / len(taken) * 1e6,
        "p50_us": statistics.median(taken) * 1e6,
    }


if __name__ == "__main__":
    port, authority, connections, size, seconds, pid = sys.argv[1:]
    print(
        json.dumps(
            main(int(port), authority, int(connections), int(size), float(seconds), int(pid))
        )
    )
