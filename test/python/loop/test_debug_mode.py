"""Debug mode: slow callbacks, wrong threads, forgotten coroutines, and where things came from."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import socket
import threading
import time

import pytest


@pytest.fixture
def debugged(loop):
    loop.set_debug(True)
    return loop


async def test_slow_callback(loop, debugged, caplog):
    loop.slow_callback_duration = 0.01
    with caplog.at_level(logging.WARNING, "asyncio"):
        loop.call_soon(time.sleep, 0.02)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert "Executing <Handle sleep(0.02)" in caplog.text
    assert "took 0.0" in caplog.text


async def test_slow_task(loop, debugged, caplog):
    async def slow() -> None:
        time.sleep(0.02)  # noqa: ASYNC251

    loop.slow_callback_duration = 0.01
    with caplog.at_level(logging.WARNING, "asyncio"):
        await asyncio.ensure_future(slow())
    assert "Executing <Task" in caplog.text
    assert "slow()" in caplog.text


async def test_slow_protocol(loop, debugged, caplog):
    """Native transports have no handles. Previously slow ones were not reported."""

    class Slow(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            time.sleep(0.02)
            received.set()

    received = asyncio.Event()
    loop.slow_callback_duration = 0.01
    near, far = socket.socketpair()
    transport, _ = await loop.create_connection(Slow, sock=near)
    with caplog.at_level(logging.WARNING, "asyncio"):
        far.send(b"x")
        await received.wait()
    assert re.search(r"Executing .* took 0\.0\d\d seconds", caplog.text)
    transport.close()
    far.close()


async def test_quick_callbacks_are_not_mentioned(loop, debugged, caplog):
    loop.slow_callback_duration = 30
    with caplog.at_level(logging.WARNING, "asyncio"):
        for _ in range(100):
            await asyncio.sleep(0)
    assert "Executing" not in caplog.text


@pytest.mark.parametrize("method", ["call_soon", "call_later", "call_at"])
async def test_wrong_thread(loop, debugged, method):
    arguments = (print,) if method == "call_soon" else (1, print)
    errors = []

    def call() -> None:
        try:
            getattr(loop, method)(*arguments)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert errors == [
        "Non-thread-safe operation invoked on an event loop other than the current one"
    ]


async def test_callbacks_are_checked(loop, debugged):
    async def coroutine() -> None:
        pass

    with pytest.raises(TypeError):
        loop.call_soon(coroutine)
    with pytest.raises(TypeError, match=r"expected by call_at\(\)"):
        loop.call_later(0, "not callable")
    with pytest.raises(TypeError):
        loop.call_soon_threadsafe(None)


async def test_handles_know_where_they_were_made(loop, debugged):
    handle = loop.call_later(3600, print)
    assert handle._source_traceback[-1].name == "test_handles_know_where_they_were_made"
    assert "created at" in repr(handle)
    assert __file__ in repr(handle)
    handle.cancel()


async def test_cancelled_handles_say_so(loop, debugged):
    """Previously their repr did not change: a list of them did not show which would run."""
    for handle in (loop.call_soon(print, "x"), loop.call_later(60, print, "x")):
        handle.cancel()
        assert "Handle cancelled" in repr(handle)
        assert "print('x') created at" in repr(handle)


async def test_origin_can_be_formatted(loop, debugged):
    handle = loop.call_soon(print)
    handle.cancel()
    assert __file__ in "".join(handle._source_traceback.format())


async def test_errors_know_where_they_came_from(loop, debugged, unhandled):
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    context = unhandled.pop()
    assert isinstance(context["exception"], ZeroDivisionError)
    assert context["source_traceback"][-1].filename == __file__


def test_forgotten_coroutine_is_reported_with_its_origin(loop, debugged):
    async def forgotten() -> None:
        pass

    def forget() -> None:
        forgotten()
        gc.collect()

    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="(?s)never awaited.*created at.*in forget"):
            forget()

    loop.run_until_complete(main())


async def test_debug_may_change_while_running(loop):
    assert not loop.get_debug()
    loop.set_debug(True)
    assert loop.get_debug()
    await asyncio.sleep(0)
    loop.set_debug(False)
    await asyncio.sleep(0)
    assert not loop.get_debug()


async def test_blocking_socket_is_refused(loop, debugged):
    import socket

    near, far = socket.socketpair()
    with near, far:
        with pytest.raises(ValueError, match="non-blocking"):
            await loop.sock_recv(near, 1)


async def test_everything_still_works(loop, debugged):
    from connections import connected

    async with connected() as (server, client):
        client.transport.write(b"hello")
        assert await server.received(5) == b"hello"
        client.transport.close()
        await server.lost
