"""Do microtasks run after each callback, before the next, in their order?"""

from __future__ import annotations

import asyncio
import contextvars
import os
import time

import pytest
from fronts import pair, run

pytestmark = pytest.mark.ours


async def idle_turns(loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_drain_after_each_callback(loop):
    """Those that a microtask queues come behind the others, and still before the next callback."""
    order: list[object] = []

    def microtask(name: str) -> None:
        order.append(name)
        if name == "a1":
            loop.queue_microtask(microtask, "a3")

    def callback(name: str) -> None:
        order.append(name)
        loop.queue_microtask(microtask, f"{name}1")
        loop.next_tick(microtask, f"{name}2")

    loop.call_soon(callback, "a")
    loop.call_soon(callback, "b")
    loop.call_soon(order.append, "c")
    await idle_turns(loop)
    assert order == ["a", "a1", "a2", "a3", "b", "b1", "b2", "c"]


async def test_after_fds_timers_and_task_steps(loop):
    order: list[str] = []
    done = loop.create_future()

    def after(name: str) -> None:
        order.append(name)
        loop.queue_microtask(order.append, f"after {name}")

    with pair() as (near, far):
        far.send(b"x")
        loop.add_reader(near, lambda: (after("fd"), loop.remove_reader(near)))
        loop.call_later(0.001, lambda: (after("timer"), loop.call_soon(done.set_result, None)))
        after("task")
        await done
    assert order[:2] == ["task", "after task"]
    assert sorted(order[2:]) == ["after fd", "after timer", "fd", "timer"]
    assert order.index("after fd") == order.index("fd") + 1
    assert order.index("after timer") == order.index("timer") + 1


async def test_data_received_drains_too(loop):
    """Protocols are called by native code, not through a handle."""
    order: list[str] = []
    done = loop.create_future()

    class Protocol(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            order.append("data")
            loop.queue_microtask(order.append, "microtask")
            loop.call_soon(done.set_result, None)

    with pair() as (near, far):
        transport, _ = await loop.create_connection(Protocol, sock=near)
        far.send(b"x")
        await done
        transport.close()
    assert order == ["data", "microtask"]


def test_queued_before_the_loop_runs(loop):
    order: list[str] = []
    loop.call_soon(order.append, "callback")
    loop.queue_microtask(order.append, "microtask")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert order == ["microtask", "callback"]


def test_a_lone_microtask_runs_at_once(loop):
    """A loop with nothing else does not sleep on it."""
    loop.queue_microtask(loop.stop)
    loop.run_forever()


async def test_the_loop_sleeps_afterwards(loop):
    """In the kernel: it uses no time while it waits."""
    loop.queue_microtask(int)
    await asyncio.sleep(0.05)
    before = time.thread_time()
    await asyncio.sleep(0.3)
    assert time.thread_time() - before < 0.1


async def test_contexts(loop):
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen: list[str] = []

    def look() -> None:
        seen.append(variable.get())

    variable.set("mine")
    loop.queue_microtask(look)
    other = contextvars.copy_context()
    other.run(variable.set, "given")
    loop.queue_microtask(look, context=other)
    variable.set("changed afterwards")
    await idle_turns(loop)
    assert seen == ["mine", "given"]


async def test_cancelled_ones_do_not_run(loop):
    ran: list[int] = []
    loop.queue_microtask(ran.append, 1).cancel()
    loop.queue_microtask(ran.append, 2)
    await idle_turns(loop)
    assert ran == [2]


async def test_an_exception_is_reported_and_the_rest_runs(loop, unhandled):
    ran: list[int] = []
    loop.queue_microtask(int, "no number")
    loop.queue_microtask(ran.append, 1)
    await idle_turns(loop)
    assert ran == [1]
    assert isinstance(unhandled.pop()["exception"], ValueError)


async def test_one_that_queues_itself_forever(loop, unhandled):
    """The error is raised in the microtask itself, and the loop goes on."""
    runs = 0

    def feed() -> None:
        nonlocal runs
        runs += 1
        loop.queue_microtask(feed)

    loop.set_microtask_limit(1000)
    loop.call_soon(feed)
    await idle_turns(loop)
    assert runs == 1002  # The callback, the microtask it queued, and 1,000 that those queued.
    report = unhandled.pop()
    assert "feed()" in report["message"]
    assert "have queued 1000 more: does one queue itself endlessly?" in str(report["exception"])


async def test_many_from_one_callback_are_not_feeding(loop):
    """The limit is for what microtasks queue themselves."""
    ran: list[int] = []
    loop.set_microtask_limit(10)
    for number in range(1000):
        loop.queue_microtask(ran.append, number)
    await idle_turns(loop)
    assert ran == list(range(1000))


async def test_debug_mode(loop):
    ran: list[int] = []
    loop.set_debug(True)
    loop.queue_microtask(ran.append, 1)
    with pytest.raises(TypeError, match="coroutines cannot be used with queue_microtask"):
        loop.queue_microtask(idle_turns, loop)
    await idle_turns(loop)
    assert ran == [1]


def test_wrong_arguments_and_closed_loops(loop):
    with pytest.raises(ValueError):
        loop.set_microtask_limit(0)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.queue_microtask(int)


def test_microtasks_that_did_not_run_when_the_loop_closes(loop):
    kept = {"object": os.urandom(8)}
    loop.queue_microtask(kept.clear)
    loop.close()
    assert kept


def test_on_a_callback_loop(callbacks):
    order: list[str] = []

    def callback(name: str) -> None:
        order.append(name)
        callbacks.queue_microtask(order.append, f"{name}1")
        callbacks.next_tick(order.append, f"{name}2")

    callbacks.call_soon(callback, "a")
    callbacks.call_soon(callback, "b")
    callbacks.call_soon(callbacks.stop)
    run(callbacks)
    assert order == ["a", "a1", "a2", "b", "b1", "b2"]
