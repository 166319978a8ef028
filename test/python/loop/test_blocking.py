"""Is the handler that blocked the loop named: file, line, how long?"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import time

import pytest
from fronts import pair

pytestmark = pytest.mark.ours

THRESHOLD = 0.05


def block(*_args: object) -> None:
    time.sleep(THRESHOLD * 1.2)


class Blocks:
    def method(self) -> None:
        block()

    def __call__(self) -> None:
        block()


class BlockingProtocol(asyncio.Protocol):
    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done

    def data_received(self, data: bytes) -> None:
        block()
        self.done.set_result(None)


def line_of(function: object) -> int:
    return function.__code__.co_firstlineno


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said, without the time, which is checked here."""
    found = []
    for record in caplog.records:
        if record.name == "erlang_loop":
            match = re.fullmatch(
                r"The loop was blocked for (\d+\.\d+) seconds by (.*)", record.getMessage()
            )
            assert match
            assert record.levelno == logging.WARNING
            assert float(match[1]) >= THRESHOLD
            found.append(match[2])
    return found


@pytest.mark.parametrize(
    ("callback", "name", "code"),
    [
        (block, "block()", block),
        (functools.partial(block, 1), "block()", block),
        (Blocks().method, "Blocks.method()", Blocks.method),
        (Blocks(), "Blocks()", Blocks.__call__),
        (functools.partial(time.sleep, THRESHOLD * 1.2), "sleep()", None),
    ],
)
async def test_callbacks(loop, caplog, callback, name, code):
    loop.set_blocking_threshold(THRESHOLD)
    loop.call_soon(callback)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    place = f" at {__file__}:{line_of(code)}" if code else ""
    assert reported(caplog) == [name + place]


async def test_timers_fds_and_microtasks(loop, caplog):
    loop.set_blocking_threshold(THRESHOLD)
    done = loop.create_future()
    with pair() as (near, far):
        far.send(b"x")
        loop.add_reader(near, lambda: (loop.remove_reader(near), block()))
        loop.call_later(0.001, block)
        loop.queue_microtask(block)
        loop.call_later(0.01, done.set_result, None)
        await done
    assert len(reported(caplog)) == 3


async def test_tasks(loop, caplog):
    """Named by their coroutine, and where it stands now."""

    async def handler() -> None:
        block()
        await asyncio.sleep(0)

    loop.set_blocking_threshold(THRESHOLD)
    task = loop.create_task(handler(), name="the task")
    await task
    (said,) = reported(caplog)
    name = "test_tasks.<locals>.handler() of the task"
    assert said == f"{name} at {__file__}:{line_of(handler) + 2}"


async def test_protocols(loop, caplog):
    """Called by native code, which debug mode does not look at."""
    loop.set_blocking_threshold(THRESHOLD)
    done = loop.create_future()
    with pair() as (near, far):
        transport, _ = await loop.create_connection(lambda: BlockingProtocol(done), sock=near)
        far.send(b"x")
        await done
        transport.close()
    place = f"{__file__}:{line_of(BlockingProtocol.data_received)}"
    assert reported(caplog) == [f"BlockingProtocol.data_received() at {place}"]


async def test_quick_ones_are_not_named(loop, caplog):
    loop.set_blocking_threshold(10)
    loop.call_soon(block)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reported(caplog) == []


async def test_nothing_is_measured_unless_asked_for(loop, caplog):
    loop.set_blocking_threshold(THRESHOLD)
    loop.set_blocking_threshold(None)
    loop.call_soon(block)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reported(caplog) == []


async def test_debug_mode_logs_it_once(loop, caplog):
    """asyncio's own message is the one."""
    loop.set_debug(True)
    loop.slow_callback_duration = THRESHOLD
    loop.set_blocking_threshold(THRESHOLD)
    loop.call_soon(block)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reported(caplog) == []
    assert [each.name for each in caplog.records if "took" in each.getMessage()] == ["asyncio"]


async def test_an_exception_is_reported_too(loop, caplog, unhandled):
    def fails() -> None:
        block()
        raise ValueError

    loop.set_blocking_threshold(THRESHOLD)
    loop.call_soon(fails)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(reported(caplog)) == 1
    assert isinstance(unhandled.pop()["exception"], ValueError)


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_wrong_thresholds(loop, wrong):
    with pytest.raises(ValueError):
        loop.set_blocking_threshold(wrong)
