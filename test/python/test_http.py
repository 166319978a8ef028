"""Does the HTTP server answer well-formed requests, refuse others, and survive bad clients?"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from command import ERLANG_LOOP
from command import run as run_program
from erlang_loop.callbacks import CallbackLoop
from erlang_loop.http import HttpServer, Limits, Request, Response
from fronts import PATIENCE, run

pytestmark = pytest.mark.ours


def about(request: Request, response: Response) -> None:
    body = request.body.decode("latin-1")
    response.send(f"{request.method} {request.target} {body}")


def client(loop: CallbackLoop, work: Callable[..., Any], *args: Any) -> Any:
    """Runs a client in a thread while the loop serves it; what it answered."""
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
    """Sends the parts and answers everything the server sends until it closes."""
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


# ---- what works ----


def test_keep_alive(callbacks):
    server = serve(callbacks)

    def requests() -> list[bytes]:
        connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE)
        answers = []
        for number in range(3):
            connection.request("POST", f"/{number}", body=b"x" * number)
            answers.append(connection.getresponse().read())
            assert connection.sock is not None
        connection.close()
        return answers

    assert client(callbacks, requests) == [b"POST /0 ", b"POST /1 x", b"POST /2 xx"]


def test_pipelining(callbacks):
    """More than are taken in one go, in one piece; the answers come in order."""
    server = serve(callbacks)
    count = 200
    requests = b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(count))
    last = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    answer = client(callbacks, talk, server, requests + last)
    found = [part.split(b" ", 1)[0] for part in answer.split(b"GET ")[1:]]
    assert found == [*(b"/%d" % n for n in range(count)), b"/last"]


def test_answers_given_later_keep_their_order(callbacks):
    """The first is answered by a thread, the second could be at once: it waits."""

    def handler(request: Request, response: Response) -> None:
        if request.path == "/slow":
            callbacks.run_in_pool(time.sleep, 0.01, callback=lambda _: response.send("slow"))
        else:
            response.send("fast")

    server = serve(callbacks, handler)
    requests = b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"
    requests += b"GET /fast HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    answer = client(callbacks, talk, server, requests)
    assert 0 < answer.index(b"slow") < answer.index(b"fast")


def test_chunked_request(callbacks):
    server = serve(callbacks)
    head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    answer = client(callbacks, talk, server, head, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n")
    assert answer.endswith(b"POST / abcde")


def test_chunked_answer(callbacks):
    def handler(_request: Request, response: Response) -> None:
        response.begin(200, [("content-type", "text/plain")])
        response.write("one ")
        callbacks.call_later(0.001, lambda: (response.write(b"two"), response.end()))

    server = serve(callbacks, handler)

    def request() -> tuple[str | None, bytes]:
        connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE)
        connection.request("GET", "/")
        answer = connection.getresponse()
        encoding = answer.headers["transfer-encoding"]
        body = answer.read()
        connection.close()
        return encoding, body

    assert client(callbacks, request) == ("chunked", b"one two")


def test_http_1_0(callbacks):
    """No keep-alive; no chunks, the end of the connection ends the body."""

    def handler(_request: Request, response: Response) -> None:
        response.write(b"body")
        response.end()

    server = serve(callbacks, handler)
    answer = client(callbacks, talk, server, b"GET / HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nbody")
    assert b"chunked" not in answer


@pytest.mark.parametrize(("method", "code"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_answers_without_a_body(callbacks, method, code):
    def handler(request: Request, response: Response) -> None:
        response.send(b"hidden" if request.method == "HEAD" else b"", status=code)

    server = serve(callbacks, handler)
    request = f"{method} / HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    second = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    answer = client(callbacks, talk, server, request, second)
    assert b"hidden" not in answer
    assert answer.count(b"HTTP/1.1") == 2


def test_expect_100_continue(callbacks):
    server = serve(callbacks)

    def request() -> bytes:
        with socket.create_connection(server.address, timeout=PATIENCE) as sock:
            head = (
                b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
            )
            sock.sendall(head)
            first = receive(sock, b"\r\n\r\n")
            sock.sendall(b"ab")
            return first + receive(sock, b"ab")

    answer = client(callbacks, request)
    assert answer.startswith(b"HTTP/1.1 100 ")
    assert b"HTTP/1.1 200 OK" in answer


def test_what_a_handler_sees(callbacks):
    seen: list[Request] = []

    def handler(request: Request, response: Response) -> None:
        seen.append(request)
        response.send(status=599, headers=[("X-Mine", "1"), (b"x-bytes", b"2")])

    server = serve(callbacks, handler)
    request = b"PUT /a%20b?c=d HTTP/1.1\r\nHost: h\r\nX-Header: v\r\nConnection: close\r\n"
    answer = client(callbacks, talk, server, request + b"Content-Length: 1\r\n\r\nz")
    (found,) = seen
    assert (found.method, found.path, found.query, found.body) == ("PUT", "/a b", "c=d", b"z")
    assert found.header("x-header") == "v"
    assert found.header("none") is None
    assert found.http_version == "1.1"
    assert found.address[0] == "127.0.0.1"
    assert status(answer) == 599
    assert b"X-Mine: 1\r\nx-bytes: 2\r\n" in answer


def test_a_large_answer_waits_for_its_reader(callbacks):
    """The handler writes only as fast as the client reads."""
    parts = 200
    most_waiting: list[int] = []

    def handler(_request: Request, response: Response) -> None:
        left = [parts]

        def more() -> None:
            while left[0]:
                left[0] -= 1
                room = response.write(b"x" * 65_536)
                most_waiting.append(len(response._connection._output._waiting))
                if not room:
                    response.on_drain(more)
                    return
            response.end()

        response.begin(200, [("content-length", str(parts * 65_536))])
        more()

    server = serve(callbacks, handler)

    def request() -> int:
        with socket.create_connection(server.address, timeout=PATIENCE) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            return len(receive_all(sock).split(b"\r\n\r\n", 1)[1])

    assert client(callbacks, request) == parts * 65_536
    assert max(most_waiting) < 4 * 65_536


# ---- what is refused ----

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


def test_an_answer_is_not_lost_by_what_the_client_still_sends(callbacks):
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
    """A byte now and then does not keep a connection open for ever."""
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
                time.sleep(0.005)  # The server's own business: nothing tells this thread.
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
    """However the bytes arrive, the answers are the same."""
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
    """Any answer will do, but there is one or an end, and the server goes on."""
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
    """In the middle of a request, or with a reset while they are answered."""
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


# ---- the end ----


def test_shutdown_finishes_what_is_under_way(nothing_left):
    begun = threading.Event()
    held: list[Response] = []

    def handler(_request: Request, response: Response) -> None:
        held.append(response)
        begun.set()
        loop.stop()

    loop = CallbackLoop()
    server = HttpServer(loop, handler)
    idle = socket.create_connection(server.address, timeout=PATIENCE)
    answers: list[bytes] = []
    busy = threading.Thread(
        target=lambda: answers.append(talk(server, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
    )
    busy.start()
    run(loop)
    loop.call_later(0.01, lambda: held[0].send("finished"))
    assert loop.shutdown(patience=PATIENCE) == []
    busy.join()
    assert answers[0].endswith(b"finished")
    assert b"connection: close" in answers[0]
    assert idle.recv(1) == b""
    idle.close()


def test_shutdown_has_its_patience(nothing_left):
    """A handler that never answers."""
    loop = CallbackLoop()
    server = HttpServer(loop, lambda _request, _response: loop.stop())
    with socket.create_connection(server.address, timeout=PATIENCE) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        run(loop)
        assert loop.shutdown(patience=0.01) == []
        assert sock.recv(1) == b""


def test_close_alone(callbacks):
    server = serve(callbacks)
    address = server.address
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_without_the_parser():
    program = "import sys; sys.modules['h11'] = None; import erlang_loop.http"
    ended = run_program(ERLANG_LOOP, "-c", program)
    assert ended.code == 1
    assert "erlang_loop.http needs the package h11: `pip install h11`" in ended.err
