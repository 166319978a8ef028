"""An HTTP server under test, and clients that send it whatever they like."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from erlang_loop.callbacks import CallbackLoop
from erlang_loop.http import HttpServer, Limits, Request, Response
from fronts import PATIENCE, run


def about(request: Request, response: Response) -> None:
    body = request.body.decode("latin-1")
    response.send(f"{request.method} {request.target} {body}")


def client(loop: CallbackLoop, work: Callable[..., Any], *args: Any) -> Any:
    """Runs a client in a thread while the loop serves it; returns the client's result."""
    answers: list[Any] = []
    errors: list[BaseException] = []

    def ended(collected: list[Any], value: Any) -> None:
        collected.append(value)
        loop.stop()

    loop.run_in_pool(
        work,
        *args,
        callback=lambda value: ended(answers, value),
        on_error=lambda error: ended(errors, error),
    )
    run(loop)
    if errors:
        raise errors[0]
    return answers[0]


def serve(loop: CallbackLoop, handler: Any = about, **limits: Any) -> HttpServer:
    return HttpServer(loop, handler, limits=Limits(**limits) if limits else None)


def talk(server: HttpServer, *parts: bytes) -> bytes:
    """Sends the parts and returns everything the server sends until it closes."""
    with socket.create_connection(server.address, timeout=PATIENCE) as sock:
        for part in parts:
            sock.sendall(part)
        return receive_all(sock)


def receive_all(sock: socket.socket) -> bytes:
    data = bytearray()
    while part := sock.recv(65_536):
        data += part
    return bytes(data)


def receive(sock: socket.socket, end: bytes) -> bytes:
    """Until the data ends so."""
    data = bytearray()
    while not data.endswith(end):
        part = sock.recv(65_536)
        assert part, f"closed after {bytes(data)!r}"
        data += part
    return bytes(data)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])
