"""Do WSGI applications run, on threads, as PEP 3333 says?"""

from __future__ import annotations

import sys
import threading
from wsgiref.validate import validator

import pytest
from erlang_loop.asgi.wsgi import WsgiApp
from serving_apps import get, parts_of, post, serving, talk

pytestmark = pytest.mark.ours


async def ask(app, request, **options):
    async with serving(WsgiApp(app), **options) as address:
        return await talk(address, request)


async def test_a_request(loop):
    seen = {}

    def app(environ, start_response):
        seen.update(environ, thread=threading.current_thread())
        seen["read"] = environ["wsgi.input"].read(5)
        start_response("201 Made", [("Content-Type", "text/plain"), ("X-One", "1")])
        return [b"one ", b"two"]

    request = post(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "Transfer-Encoding: chunked", "X_Y: 1")
    request = request.replace(b"POST / ", b"POST /%C3%BC?q=1 ")
    # The validator is a part of the standard library, and raises at every deviation.
    status, headers, body = parts_of(await ask(validator(app), request))
    assert (status, headers["X-One"]) == (201, "1")
    assert body == b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"
    assert (seen["PATH_INFO"], seen["QUERY_STRING"]) == ("/Ã¼", "q=1")
    assert (seen["read"], seen["CONTENT_LENGTH"], seen["HTTP_HOST"]) == (b"abcde", "5", "test")
    assert "HTTP_X_Y" not in seen
    assert seen["thread"] is not threading.current_thread()


async def test_raising(loop, caplog):
    def app(environ, start_response):
        raise ValueError("broken")

    assert parts_of(await ask(app, get()))[0] == 500
    assert "ValueError: broken" in caplog.text


async def test_an_error_page_instead(loop):
    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            raise ValueError("broken")
        except ValueError:
            start_response("503 Later", [], sys.exc_info())
        return [b"sorry"]

    status, _, body = parts_of(await ask(app, get()))
    assert status == 503
    assert b"sorry" in body


async def test_no_start_response(loop, caplog):
    assert parts_of(await ask(lambda environ, start_response: [b"x"], get()))[0] == 500
    assert "has not called start_response" in caplog.text


async def test_parts_are_closed(loop):
    closed = []

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            yield b"x"
        finally:
            closed.append(True)

    await ask(app, get())
    assert closed == [True]
