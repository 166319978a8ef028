"""What happens when code raises that is no plain callback: what runs because something has ended.

Done callbacks, signal handlers, protocols of subprocesses, finalizers, the reprs that a report
needs. The positions of callbacks and protocols are in test_exceptions.py.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import weakref

import pytest
from connections import eventually
from test_exceptions import OursError, errors, fail


@pytest.fixture
def unraisable(monkeypatch):
    """What Python could only report: exceptions in destructors and the like."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(report.exc_type))
    return reported


async def test_done_callbacks(loop, unhandled):
    """Later ones still run."""
    ran = []
    future = loop.create_future()
    task = loop.create_task(asyncio.sleep(0))
    for each in (future, task):
        each.add_done_callback(fail)
        each.add_done_callback(ran.append)
    future.set_result(None)
    await task
    await eventually(lambda: len(ran) == 2)
    assert errors(unhandled) == [OursError] * 2


@pytest.mark.ours
async def test_signal_handler(loop, unhandled):
    """asyncio's own loop has signals in the main thread only."""
    loop.add_signal_handler(signal.SIGUSR2, fail)
    try:
        for _ in range(2):  # The handler stays.
            os.kill(os.getpid(), signal.SIGUSR2)
            await eventually(lambda: unhandled)
            assert errors(unhandled) == [OursError]
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)


@pytest.mark.ours
async def test_protocol_of_a_subprocess(loop, unhandled):
    """Every method raises; the process is waited for, and its exit code known."""
    called = []

    class Failing(asyncio.SubprocessProtocol):
        def connection_made(self, transport):
            self.transport = transport
            called.append("connection_made")
            raise OursError

        def pipe_data_received(self, fd, data):
            called.append(f"pipe_data_received {fd}")
            raise OursError

        def pipe_connection_lost(self, fd, exc):
            called.append(f"pipe_connection_lost {fd}")
            raise OursError

        def process_exited(self):
            called.append("process_exited")
            raise OursError

        def connection_lost(self, exc):
            called.append("connection_lost")
            raise OursError

    transport, _ = await loop.subprocess_exec(
        Failing, sys.executable, "-c", "print(1)", stdin=None, stderr=None
    )
    await eventually(lambda: "connection_lost" in called)
    await eventually(lambda: len(unhandled) >= len(called))
    transport.close()
    assert transport.get_returncode() == 0
    assert set(called) >= {
        *("connection_made", "pipe_data_received 1"),
        *("pipe_connection_lost 1", "process_exited", "connection_lost"),
    }
    assert set(errors(unhandled)) == {OursError}


async def test_finalizer_of_an_asynchronous_generator(loop, unhandled):
    """When it is collected, and when the loop shuts generators down."""

    async def numbers():
        try:
            yield 1
        finally:
            raise OursError

    collected, kept = numbers(), numbers()
    await collected.__anext__()
    await kept.__anext__()
    del collected
    gc.collect()
    await eventually(lambda: unhandled)
    assert errors(unhandled) == [OursError]
    await loop.shutdown_asyncgens()
    assert "asynchronous generator" in unhandled[0]["message"]
    assert errors(unhandled) == [OursError]


async def test_finalizers_of_objects(loop, unraisable):
    """Weak references and `__del__`, of what the loop held last."""

    class Held:
        def __call__(self) -> None:
            pass

        def __del__(self) -> None:
            raise OursError

    held = Held()
    watching = weakref.ref(held, fail)
    loop.call_soon(held)
    del held
    await eventually(lambda: watching() is None)
    assert unraisable == [OursError] * 2


async def test_what_a_report_is_made_of(loop, unhandled):
    """The repr of an argument raises while the error of its callback is reported."""

    class Odd:
        def __repr__(self) -> str:
            raise OursError

    loop.call_soon(fail, Odd())
    await eventually(lambda: unhandled)
    # From Python 3.13 on, arguments are in it in debug mode only.
    assert "Exception in callback fail(" in unhandled[0]["message"]
    assert errors(unhandled) == [OursError]


def test_exception_handler_that_raises_system_exit(loop):
    """SystemExit out of the handler leaves the loop, as out of a callback."""

    def leave(_loop, _context):
        raise SystemExit(3)

    before = loop.get_exception_handler()
    loop.set_exception_handler(leave)
    loop.call_soon(fail)
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.set_exception_handler(before)
    loop.run_until_complete(asyncio.sleep(0))


def test_task_factory(loop):
    """The code that creates the task gets the error."""

    def factory(_loop, _coroutine, **_options):
        raise OursError

    async def main() -> None:
        coroutine = asyncio.sleep(0)
        loop.set_task_factory(factory)
        try:
            with pytest.raises(OursError):
                loop.create_task(coroutine)
        finally:
            loop.set_task_factory(None)
            coroutine.close()
        await asyncio.sleep(0)

    loop.run_until_complete(main())


async def test_awaitables(loop):
    class Awaitable:
        def __await__(self):
            raise OursError

    for _ in range(2):
        with pytest.raises(OursError):
            await asyncio.wait_for(Awaitable(), 10)
    results = await asyncio.gather(Awaitable(), asyncio.sleep(0, 1), return_exceptions=True)
    assert [type(result) for result in results] == [OursError, int]
