"""Are loops, callbacks, timers and servers found by the garbage collector, and nothing in use?"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import random
import socket
import weakref
from typing import Any

import pytest
from both_loops import LOOPS
from connections import eventually
from erlang_loop._native import call_soon_prioritized

VARIABLE: contextvars.ContextVar[object] = contextvars.ContextVar("VARIABLE")


class Thing:
    """Something in a cycle with its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.kept: object = None


def timer(thing: Thing) -> None:
    thing.loop.call_later(3600, print, thing)


def kept_timer(thing: Thing) -> None:
    thing.kept = thing.loop.call_later(3600, print, thing)


def timer_with_weak_reference(thing: Thing) -> None:
    thing.kept = weakref.ref(thing.loop.call_later(3600, print, thing))


def timer_in_context(thing: Thing) -> None:
    VARIABLE.set(thing)
    thing.loop.call_later(3600, print)


def kept_timer_in_context(thing: Thing) -> None:
    VARIABLE.set(thing)
    thing.kept = thing.loop.call_later(3600, print)


def kept_context(thing: Thing) -> None:
    VARIABLE.set(thing)
    context = contextvars.copy_context()
    thing.kept = context
    thing.loop.call_later(3600, print, context=context)


def callback(thing: Thing) -> None:
    thing.loop.call_soon(list, [thing])


def kept_callback(thing: Thing) -> None:
    thing.kept = thing.loop.call_soon(list, [thing])


def kept_callback_in_context(thing: Thing) -> None:
    VARIABLE.set(thing)
    thing.kept = thing.loop.call_soon(list)


def listed_timers(thing: Thing) -> None:
    thing.loop.call_later(3600, print, thing)
    thing.kept = list(thing.loop._scheduled)


def sleeper(thing: Thing) -> None:
    async def sleep() -> None:
        thing.kept = asyncio.current_task()
        await asyncio.sleep(3600)

    thing.loop.create_task(sleep())


def kept_threadsafe_callback(thing: Thing) -> None:
    thing.kept = thing.loop.call_soon_threadsafe(list, [thing])


def reader(thing: Thing) -> None:
    pipe = os.pipe()
    for fd in pipe:
        weakref.finalize(thing, os.close, fd)
    thing.loop.add_reader(pipe[0], list, [thing])


CYCLES = [
    timer,
    kept_timer,
    timer_in_context,
    kept_timer_in_context,
    kept_context,
    callback,
    kept_callback,
    kept_callback_in_context,
    kept_threadsafe_callback,
    listed_timers,
    timer_with_weak_reference,
    reader,
]
RUN_CYCLES = [*CYCLES, sleeper]


def microtask(loop: Any, *call: Any) -> object:
    return loop.queue_microtask(*call)


def urgent(loop: Any, *call: Any) -> object:
    return call_soon_prioritized(loop, -1, call[0], call[1:], None)


def idle(loop: Any, *call: Any) -> object:
    return call_soon_prioritized(loop, 1, call[0], call[1:], None)


def is_freed(thing: weakref.ref[Thing]) -> bool:
    gc.collect()
    gc.collect()
    return thing() is None


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("make", CYCLES)
def test_a_forgotten_loop_that_never_ran(loop_name, make, close):
    def forget() -> weakref.ref[Thing]:
        thing = Thing(LOOPS[loop_name]())
        contextvars.copy_context().run(make, thing)
        if close:
            thing.loop.close()
        return weakref.ref(thing)

    assert is_freed(forget())


@pytest.mark.ours
@pytest.mark.filterwarnings("ignore:unclosed event loop")
@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("queue", [microtask, urgent, idle])
def test_callbacks_of_other_priorities_that_never_ran(loop_name, queue, close):
    def forget() -> weakref.ref[Thing]:
        thing = Thing(LOOPS[loop_name]())
        thing.kept = queue(thing.loop, list, [thing])
        if close:
            thing.loop.close()
        return weakref.ref(thing)

    assert is_freed(forget())


@pytest.mark.filterwarnings("ignore:unclosed")
def test_a_forgotten_loop_with_a_server(loop_name):
    """The port can be used again: the listening socket is closed."""

    def forget() -> tuple[weakref.ref[Any], tuple[str, int]]:
        loop = LOOPS[loop_name]()
        server = loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0))
        return weakref.ref(loop), server.sockets[0].getsockname()

    loop, address = forget()
    gc.collect()
    gc.collect()
    assert loop() is None
    with socket.create_server(address, reuse_port=False):
        pass


@pytest.mark.filterwarnings("ignore:unclosed event loop")
@pytest.mark.parametrize("name", ["call_soon", "call_soon_threadsafe", "call_later"])
def test_a_chain_of_handles(loop_name, name):
    """Freeing one frees the next, and so on: without recursion."""
    loop = LOOPS[loop_name]()
    schedule = getattr(loop, name)
    delay = [3600] if name == "call_later" else []
    last = Thing(loop)
    handle: object = last
    for _ in range(300_000):
        handle = schedule(*delay, id, handle)
    freed = weakref.ref(last)
    del handle, last
    loop.close()
    gc.collect()
    assert freed() is None


@pytest.mark.filterwarnings("ignore:unclosed event loop")
@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("make", RUN_CYCLES)
def test_a_forgotten_loop_that_ran(loop_name, make, turns):
    def forget() -> weakref.ref[Thing]:
        thing = Thing(LOOPS[loop_name]())

        async def main() -> None:
            contextvars.copy_context().run(make, thing)
            for _ in range(turns):
                await asyncio.sleep(0)

        thing.loop.set_exception_handler(lambda *_: None)
        thing.loop.run_until_complete(main())
        if turns == 0:
            # What was scheduled last has its turn, or is never run.
            thing.loop.run_until_complete(asyncio.sleep(0))
        return weakref.ref(thing)

    assert is_freed(forget())


async def test_collections_at_every_moment(loop):
    """Timers and callbacks of all kinds, with a collection after nearly every allocation."""
    dice = random.Random(1)
    ran: set[int] = set()
    expected: set[int] = set()
    kept: list[object] = []

    def run(number: int, thing: list[object]) -> None:
        assert thing == [number, thing]
        assert VARIABLE.get() is thing
        ran.add(number)

    def schedule(number: int) -> None:
        thing: list[object] = [number]
        thing.append(thing)
        VARIABLE.set(thing)
        how = dice.randrange(3)
        if how == 0:
            handle: asyncio.Handle = loop.call_soon(run, number, thing)
        else:
            handle = loop.call_later(dice.random() / 500 * (how - 1), run, number, thing)
        what = dice.randrange(6)
        if what == 0:
            handle.cancel()
            return
        expected.add(number)
        if what == 1:
            kept.append(handle)
        elif what == 2:
            kept.append(weakref.ref(handle))
        elif what == 3:
            thing.append(handle)
            thing.pop()

    before = gc.get_threshold()
    gc.set_threshold(1, 2, 2)
    try:
        for number in range(1500):
            contextvars.copy_context().run(schedule, number)
            if dice.randrange(50) == 0:
                await asyncio.sleep(0)
        await eventually(lambda: ran >= expected)
    finally:
        gc.set_threshold(*before)
    assert ran == expected


async def test_arguments_of_a_callback_are_released(loop):
    alive = []
    for delay in (None, 0, 0.001):
        thing = Thing(loop)
        alive.append(weakref.ref(thing))
        if delay is None:
            loop.call_soon(id, thing)
        else:
            loop.call_later(delay, id, thing)
        del thing
    await asyncio.sleep(0.01)
    assert [thing() for thing in alive] == [None] * 3


@pytest.mark.ours
async def test_contexts_can_be_looked_at_and_kept(loop):
    """They are contexts like any other after their handle is gone."""
    VARIABLE.set("mine")
    contexts = []
    for handle in (loop.call_soon(int), loop.call_later(0, int), loop.call_later(3600, int)):
        contexts.append(handle.get_context())
        handle.cancel()
        del handle
    await asyncio.sleep(0)
    gc.collect()
    for context in contexts:
        assert context[VARIABLE] == "mine"
        assert context.run(VARIABLE.get) == "mine"
        assert context.copy()[VARIABLE] == "mine"
    references = [weakref.ref(context) for context in contexts]
    contexts.clear()
    del context
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
