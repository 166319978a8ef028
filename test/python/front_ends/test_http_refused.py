"""Does the HTTP server refuse invalid requests, and survive bad clients and bad handlers?"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time

import pytest
from erlang_loop.http import Limits, Request, Response
from fronts import PATIENCE
from http_talk import client, receive, receive_all, serve, status, talk

pytestmark = pytest.mark.ours


TOO_LONG = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 3000 + b"\r\n\r\n"
LARGE = b"POST / HTTP/1.1\r\nHost: h\r\n"


@pytest.mark.parametrize(
    ("expected", "parts"),
    [
        (400, [b"nonsense\r\n\r\n"]),
        (400, [b"GET / HTTP/1.1\r\n\r\n"]),  # No Host.
        (400, [b"\x16\x03\x01\x00\xa5\x01\x00\x00" * 40]),  # TLS.
        (400, [LARGE + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"]),
        (400, [LARGE + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"]),
        (501, [LARGE + b"Transfer-Encoding: gzip\r\n\r\n"]),
        (413, [LARGE + b"Content-Length: 99999\r\n\r\n"]),
        (413, [LARGE + b"Content-Length: 99999\r\nExpect: 100-continue\r\n\r\n"]),
        (413, [LARGE + b"Transfer-Encoding: chunked\r\n\r\n", b"800\r\n" + b"x" * 0x800]),
        (431, [TOO_LONG]),
        (431, [TOO_LONG[:1500], TOO_LONG[1500:2900]]),
    ],
)
def test_bad_input(callbacks, expected, parts):
    """Answered, then closed; the next client is served."""
    server = serve(callbacks, header_size=2000, body_size=1000)
    answer = client(callbacks, talk, server, *parts)
    assert status(answer) == expected
    assert b"connection: close" in answer
    good = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    assert status(client(callbacks, talk, server, good)) == 200


def test_a_response_is_not_lost_when_the_client_still_sends(callbacks):
    """A server that closes with data unread resets the connection, and the 413 is never seen."""
    server = serve(callbacks, body_size=1000)
    head = LARGE + b"Content-Length: 3000000\r\n\r\n"

    def request() -> bytes:
        with socket.create_connection(server.address, timeout=PATIENCE) as sock:
            sock.sendall(head)
            sock.sendall(b"x" * 3_000_000)
            return receive_all(sock)

    assert status(client(callbacks, request)) == 413


def test_slow_requests_end(callbacks):
    """A byte now and then does not keep a connection open forever."""
    server = serve(callbacks, request_time=0.05)
    assert status(client(callbacks, talk, server, b"GET / HT")) == 408
    assert client(callbacks, lambda: server.connections) == 0


def test_idle_connections_end(callbacks):
    server = serve(callbacks, idle_time=0.05)
    assert client(callbacks, talk, server) == b""
    request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    assert status(client(callbacks, talk, server, request)) == 200


def test_a_client_that_does_not_read_ends(callbacks):
    gone: list[bool] = []

    def handler(_request: Request, response: Response) -> None:
        response.send(b"x" * 30_000_000)
        response.on_drain(lambda: gone.append(True))

    server = serve(callbacks, handler, idle_time=0.05)

    def request() -> bytes:
        with socket.create_connection(server.address, timeout=PATIENCE) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            deadline = time.monotonic() + PATIENCE
            while server.connections != 0 or not gone:
                assert time.monotonic() < deadline
                time.sleep(0.005)  # Only the server knows this: no event reaches this thread.
        return b"ended"

    assert client(callbacks, request) == b"ended"


def test_more_connections_than_allowed_wait(callbacks):
    server = serve(callbacks, connections=2)
    request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"

    def clients() -> int:
        socks = [socket.create_connection(server.address, timeout=PATIENCE) for _ in range(3)]
        for sock in socks:
            sock.sendall(request)
        receive(socks[0], b"GET / ")
        receive(socks[1], b"GET / ")
        socks[2].settimeout(0.05)
        with pytest.raises(TimeoutError):
            socks[2].recv(1)
        connected = server.connections
        socks[0].close()
        socks[2].settimeout(PATIENCE)
        receive(socks[2], b"GET / ")
        socks[1].close()
        socks[2].close()
        return connected

    assert client(callbacks, clients) == 2


@pytest.mark.parametrize("limit", ["header_size", "body_size", "connections", "idle_time"])
def test_limits_must_be_positive(limit):
    with pytest.raises(ValueError, match=limit):
        Limits(**{limit: 0})


GOOD = [
    b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"GET /4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
]


@pytest.mark.parametrize("seed", range(5))
def test_requests_cut_anywhere(callbacks, seed):
    """However the bytes arrive, the responses are the same."""
    server = serve(callbacks)
    whole = b"".join(GOOD)
    cuts = sorted(random.Random(seed).sample(range(1, len(whole)), 20))
    parts = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)])]

    def request() -> bytes:
        with socket.create_connection(server.address, timeout=PATIENCE) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                sock.sendall(part)
                time.sleep(0.0005)  # So that parts arrive apart; nothing depends on it.
            return receive_all(sock)

    answer = client(callbacks, request)
    bodies = [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"GET /1 ", b"POST /2 hello", b"POST /3 abc", b"GET /4 "]


@pytest.mark.parametrize("seed", range(5))
def test_damaged_requests(callbacks, seed):
    """Any response is right, or an end of the connection, and the server goes on."""
    server = serve(callbacks, request_time=0.2, idle_time=0.2, linger_time=0.2)
    chance = random.Random(seed)

    def damaged() -> bytes:
        text = bytearray(b"".join(chance.sample(GOOD, chance.randint(1, 4))))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(text))
            text[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        return bytes(text)

    def requests() -> None:
        for _ in range(20):
            with contextlib.suppress(ConnectionError):
                talk(server, damaged())

    client(callbacks, requests)
    assert client(callbacks, talk, server, GOOD[3]).endswith(b"GET /4 ")


# ---- bad clients and bad handlers end only their own connection ----


def test_a_handler_that_raises(callbacks, unhandled):
    def handler(request: Request, response: Response) -> None:
        if request.path == "/bad":
            raise ValueError("a mistake")
        if request.path == "/late":
            response.write(b"begun")
            raise ValueError("a mistake")
        response.send("good")

    server = serve(callbacks, handler)

    def requests() -> list[bytes]:
        with socket.create_connection(server.address, timeout=PATIENCE) as good:
            answers = [
                talk(server, b"GET /bad HTTP/1.1\r\nHost: h\r\n\r\n"),
                talk(server, b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n"),
            ]
            good.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            return [*answers, receive(good, b"good")]

    bad, late, good = client(callbacks, requests)
    assert status(bad) == 500
    assert not late.endswith(b"0\r\n\r\n")  # Cut off: the client can tell.
    assert status(good) == 200
    assert [str(each["exception"]) for each in unhandled] == ["a mistake"] * 2
    unhandled.clear()


def test_clients_that_go_away(callbacks):
    """In the middle of a request, or with a reset while the reply is sent."""
    held: list[Response] = []

    def handler(request: Request, response: Response) -> None:
        if request.path == "/hold":
            held.append(response)
        else:
            response.send("good")

    server = serve(callbacks, handler)

    def requests() -> bytes:
        for request in (
            b"",
            b"GET / HTTP",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx",
        ):
            with socket.create_connection(server.address) as sock:
                sock.sendall(request)
        with socket.create_connection(server.address) as sock:
            sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return talk(server, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")

    assert status(client(callbacks, requests)) == 200
    for response in held:
        response.send(b"x" * 1_000_000)

    def settled() -> None:
        deadline = time.monotonic() + PATIENCE
        while server.connections:
            assert time.monotonic() < deadline
            time.sleep(0.005)  # As above.

    client(callbacks, settled)
    for response in held:
        assert response.gone


def test_misuse_of_a_response(callbacks):
    errors: list[str] = []

    def handler(_request: Request, response: Response) -> None:
        response.send("once")
        for again in (response.send, response.begin, response.end, lambda: response.write(b"x")):
            try:
                again()
            except RuntimeError as error:
                errors.append(str(error))

    server = serve(callbacks, handler)
    request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    assert client(callbacks, talk, server, request).endswith(b"once")
    assert errors == ["the response has ended"] * 4
