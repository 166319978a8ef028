"""Does the HTTP server respond to well-formed requests, and end as it should?"""

from __future__ import annotations

import http.client
import socket
import threading
import time

import pytest
from command import ERLANG_LOOP
from command import run as run_program
from erlang_loop.callbacks import CallbackLoop
from erlang_loop.http import HttpServer, Request, Response
from fronts import PATIENCE, run
from http_talk import client, receive, receive_all, serve, status, talk

pytestmark = pytest.mark.ours

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
    """More than are taken at once, in one piece; the replies come in order."""
    server = serve(callbacks)
    count = 200
    requests = b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % n for n in range(count))
    last = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    answer = client(callbacks, talk, server, requests + last)
    found = [part.split(b" ", 1)[0] for part in answer.split(b"GET ")[1:]]
    assert found == [*(b"/%d" % n for n in range(count)), b"/last"]


def test_late_responses_keep_their_order(callbacks):
    """A thread replies to the first; the second could get its reply at once, and waits."""

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


def test_chunked_response(callbacks):
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
def test_responses_without_a_body(callbacks, method, code):
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


def test_a_large_response_waits_for_its_reader(callbacks):
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


# ---- the end ----


def test_shutdown_finishes_running_requests(nothing_left):
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


def test_shutdown_waits_as_long_as_set(nothing_left):
    """A handler that never returns."""
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
