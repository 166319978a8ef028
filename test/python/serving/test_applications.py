"""What do clients get when an application fails, and what does it get when they leave?"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

import pytest
from erlang_loop.asgi import DisconnectedError, LifespanError
from serving_apps import body_of, get, parts_of, post, respond, server_of, serving, talk

pytestmark = pytest.mark.ours


def start(headers=()):
    return {"type": "http.response.start", "status": 200, "headers": headers}


def body(data, more=False):
    return {"type": "http.response.body", "body": data, "more_body": more}


async def get_from(app, request=None):
    async with serving(app, lifespan="off") as address:
        return await talk(address, request or get())


async def test_raising_before_the_response(loop, caplog):
    async def app(scope, receive, send):
        raise ValueError("broken")

    status, _, text = parts_of(await get_from(app))
    assert (status, text) == (500, b"Internal Server Error")
    assert "ValueError: broken" in caplog.text
    assert "GET /" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_an_exit_ends_one_request(loop, error, caplog):
    async def app(scope, receive, send):
        raise error

    assert parts_of(await get_from(app))[0] == 500
    assert [record.exc_info[0] for record in caplog.records] == [type(error)]


async def test_raising_after_the_start_that_was_not_sent(loop, caplog):
    async def app(scope, receive, send):
        await send(start())
        raise ValueError("broken")

    assert parts_of(await get_from(app))[0] == 500


async def test_raising_in_the_body_breaks_the_connection(loop, caplog):
    async def app(scope, receive, send):
        await send(start())
        await send(body(b"some", more=True))
        raise ValueError("broken")

    answer = await get_from(app)
    assert not answer.endswith(b"0\r\n\r\n")
    assert "ValueError: broken" in caplog.text


async def test_returning_too_early(loop, caplog):
    async def app(scope, receive, send):
        pass

    assert parts_of(await get_from(app))[0] == 500
    assert "returned without starting its response" in caplog.text


WRONG = {
    "body first": [body(b"")],
    "two starts": [start(), start()],
    "no type": [{}],
    "not a dict": [7],
    "no status": [{"type": "http.response.start"}],
    "an informational status": [{"type": "http.response.start", "status": 100}],
    "a status of words": [{"type": "http.response.start", "status": "200"}],
    "a header of str": [start([("a", "b")])],
    "a name with a line end": [start([(b"a\r\n", b"b")])],
    "a value with a line end": [start([(b"a", b"b\r\nc: d")])],
    "a value with NUL": [start([(b"a", b"b\0")])],
    "a Content-Length of words": [start([(b"content-length", b"x")])],
    "two Content-Lengths": [start([(b"content-length", b"1"), (b"content-length", b"2")])],
    "its own encoding": [start([(b"transfer-encoding", b"gzip")])],
    "a body of str": [start(), body("text")],
    "more than Content-Length": [start([(b"content-length", b"1")]), body(b"xx")],
    "less than Content-Length": [start([(b"content-length", b"2")]), body(b"x")],
    "unknown": [{"type": "http.response.unknown"}],
    "a relative path": [start(), {"type": "http.response.pathsend", "path": "x"}],
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_messages(loop, name, caplog):
    """Each raises in the application, and the client sees an error, not a broken message."""
    raised = []

    async def app(scope, receive, send):
        for message in WRONG[name]:
            try:
                await send(message)
            except (TypeError, ValueError, RuntimeError) as error:
                raised.append(error)
                raise

    assert parts_of(await get_from(app))[0] == 500
    assert len(raised) == 1


async def test_sending_after_the_end(loop, caplog):
    async def app(scope, receive, send):
        await respond(send, b"ok")
        with pytest.raises(RuntimeError, match="complete"):
            await send(body(b"more"))

    answer = await get_from(app)
    assert answer.endswith(b"ok")
    assert "Exception" not in caplog.text


async def disconnect_during(app, loop, **options):
    """A client that leaves once the application has begun."""
    begun = asyncio.Event()
    ended = asyncio.get_running_loop().create_future()

    async def watched(scope, receive, send):
        begun.set()
        try:
            ended.set_result(await app(receive, send))
        except BaseException as error:
            if not ended.done():
                ended.set_result(error)
            raise

    async with serving(watched, lifespan="off", **options) as address:
        _, writer = await asyncio.open_connection(*address)
        writer.write(get())
        await begun.wait()
        writer.close()
        return await asyncio.wait_for(ended, 10)


async def test_disconnect_is_received(loop):
    async def app(receive, send):
        assert (await receive())["type"] == "http.request"
        return [(await receive())["type"] for _ in range(2)]

    assert await disconnect_during(app, loop) == ["http.disconnect"] * 2


async def test_disconnect_after_a_large_body(loop):
    """Reading stops while a large body waits, and goes on once it is received."""
    got = asyncio.Event()
    left = asyncio.Event()

    async def app(scope, receive, send):
        await body_of(receive)
        got.set()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async with serving(app, lifespan="off") as address:
        _, writer = await asyncio.open_connection(*address)
        writer.write(post(b"x" * 300_000, "Content-Length: 300000"))
        await got.wait()
        writer.close()
        await asyncio.wait_for(left.wait(), 10)


async def test_send_raises_after_a_disconnect(loop, caplog):
    async def app(receive, send):
        await receive()
        await receive()
        await send(start())

    error = await disconnect_during(app, loop)
    assert isinstance(error, DisconnectedError)
    assert isinstance(error, OSError)
    # That a client leaves is no error of the server.
    assert caplog.text == ""


async def test_pipelined_requests_of_a_lost_client(loop, caplog):
    async def app(scope, receive, send):
        await respond(send, b"x" * 1000)

    async with server_of(app, lifespan="off") as (server, address):
        client = socket.create_connection(address)
        client.sendall(get(close=False) * 1000)
        # Closing with unread responses resets the connection.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        while server.counts()["connections"] or not server.counts()["served"]:
            await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_stream_to_a_lost_client_ends(loop):
    async def app(receive, send):
        await send(start())
        while True:
            await send(body(b"x" * 100_000, more=True))

    assert isinstance(await disconnect_during(app, loop), DisconnectedError)


async def test_the_application_is_not_cancelled_by_itself(loop):
    async def app(receive, send):
        await receive()
        await receive()
        await asyncio.sleep(0.05)
        return "worked on"

    assert await disconnect_during(app, loop) == "worked on"


async def test_grace_before_cancelling(loop):
    async def app(receive, send):
        await asyncio.sleep(60)

    error = await disconnect_during(app, loop, timeout_disconnect=0)
    assert isinstance(error, asyncio.CancelledError)


async def test_the_response_of_a_client_that_shut_its_side(loop):
    async def app(scope, receive, send):
        await respond(send, await body_of(receive))

    async with serving(app, lifespan="off") as address:
        answer = await talk(address, post(b"x", "Content-Length: 1"), shut=True)
    assert answer.endswith(b"x")


async def test_an_incomplete_body_is_a_disconnect(loop):
    seen = asyncio.get_running_loop().create_future()

    async def app(scope, receive, send):
        while (message := await receive())["type"] == "http.request":
            assert message["more_body"]
        seen.set_result(message["type"])

    async with serving(app, lifespan="off") as address:
        _, writer = await asyncio.open_connection(*address)
        writer.write(post(b"half", "Content-Length: 8"))
        writer.close()
        assert await asyncio.wait_for(seen, 10) == "http.disconnect"


async def test_drain_waits_for_requests(loop):
    begun, go = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        begun.set()
        await go.wait()
        await respond(send, b"done")

    async with server_of(app, lifespan="off") as (server, address):
        reader, idle = await asyncio.open_connection(*address)
        request = asyncio.ensure_future(talk(address, get(close=False)))
        await begun.wait()
        draining = asyncio.ensure_future(server.drain(10))
        # The idle connection is closed at once.
        assert await reader.read() == b""
        idle.close()
        assert not draining.done()
        go.set()
        _, headers, text = parts_of(await request)
        assert (headers["connection"], text) == ("close", b"done")
        assert await draining
        assert server.counts() == {"connections": 0, "websockets": 0, "active": 0, "served": 1}


async def test_close_cancels_what_does_not_end(loop, caplog):
    begun = asyncio.Event()
    cleaned = []

    async def app(scope, receive, send):
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    async with server_of(app, lifespan="off") as (server, address):
        request = asyncio.ensure_future(talk(address, get()))
        await begun.wait()
        await server.close(0)
        assert await request == b""
    assert cleaned == [True]
    assert "1 connections have not ended" in caplog.text


async def test_server_sent_events_do_not_hold_the_shutdown(loop):
    cleaned = asyncio.Event()
    stream = (b"content-type", b"text/event-stream")

    async def app(scope, receive, send):
        await send(start([stream]))
        try:
            while True:
                await send(body(b"data: tick\n\n", more=True))
                await asyncio.sleep(0.001)
        finally:
            # As an application that closes its subscription.
            await asyncio.sleep(0)
            cleaned.set()

    async with server_of(app, lifespan="off") as (server, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(get(close=False))
        assert (await reader.readuntil(b"data: tick\n\n")).startswith(b"HTTP/1.1 200 ")
        assert await server.drain(0.05) is False
        await server.close(0)
        await cleaned.wait()
        assert server.counts()["connections"] == 0
        writer.close()


async def test_max_requests(loop):
    async def app(scope, receive, send):
        await respond(send, b"")

    async with server_of(app, lifespan="off", limit_max_requests=2) as (server, address):
        await talk(address, get())
        assert not server.finished.is_set()
        await talk(address, get())
        assert server.finished.is_set()


async def test_access_log(loop, caplog):
    caplog.set_level(logging.INFO, "erlang_loop.asgi.access")

    async def app(scope, receive, send):
        await respond(send, b"", 404)

    async with serving(app, lifespan="off", access_log=True) as address:
        await talk(address, get("/a%0Ab?c=d"))
    assert '"GET /a\\nb?c=d HTTP/1.1" 404' in caplog.text


async def test_lifespan(loop):
    events = []

    async def app(scope, receive, send):
        if scope["type"] == "http":
            scope["state"]["count"] = 1
            await respond(send, scope["state"]["text"])
            return
        for event in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{event}"
            scope["state"]["text"] = b"from startup"
            events.append(event)
            await send({"type": f"lifespan.{event}.complete"})
        assert "count" not in scope["state"]

    async with serving(app) as address:
        assert (await talk(address, get())).endswith(b"from startup")
        assert events == ["startup"]
    assert events == ["startup", "shutdown"]


async def test_a_failing_startup(loop):
    async def app(scope, receive, send):
        await receive()
        try:
            raise ValueError("no database")
        except ValueError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise

    with pytest.raises(LifespanError) as caught:
        async with serving(app):
            pass
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("mode", ["auto", "on"])
async def test_an_application_without_lifespan(loop, mode):
    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await respond(send, b"ok")

    if mode == "on":
        with pytest.raises(LifespanError):
            async with serving(app, lifespan=mode):
                pass
    else:
        async with serving(app, lifespan=mode) as address:
            assert (await talk(address, get())).endswith(b"ok")
