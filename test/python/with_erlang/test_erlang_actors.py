"""Pids, mailboxes, actors, monitors and links, as Python code uses them.

How Erlang sees them is in py_actor_SUITE.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from typing import Any

import erlang
import pytest
from erlang import Atom


def is_alive(pid: erlang.Pid) -> bool:
    return bool(erlang.call("erlang", "is_process_alive", [pid]))


def ends(pid: erlang.Pid) -> bool:
    """For threads, which have no monitors."""
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    return not is_alive(pid)


async def has_ended(pid: erlang.Pid) -> Any:
    """The reason, of one that ends."""
    async with erlang.monitor(pid):
        return (await erlang.async_receive(timeout=20))[4]


async def echo() -> None:
    async for message in erlang.mailbox():
        if message == "stop":
            return
        sender, value = message
        erlang.send(sender, value)


async def test_messages_to_a_task(loop: asyncio.AbstractEventLoop) -> None:
    for number in range(100):
        erlang.send(erlang.self(), number)
    assert [await erlang.async_receive() for _ in range(100)] == list(range(100))


async def test_a_task_has_one_pid_and_others_have_others(loop: asyncio.AbstractEventLoop) -> None:
    async def pid() -> erlang.Pid:
        assert erlang.self() == erlang.self() == erlang.mailbox().pid
        return erlang.self()

    first, second = await asyncio.gather(pid(), pid())
    assert len({first, second, erlang.self()}) == 3


def test_a_callback_has_no_pid(loop: asyncio.AbstractEventLoop) -> None:
    asked: asyncio.Future[None] = loop.create_future()

    def ask() -> None:
        try:
            erlang.self()
        except RuntimeError as error:
            asked.set_exception(error)

    loop.call_soon(ask)
    with pytest.raises(RuntimeError, match="only tasks and threads have"):
        loop.run_until_complete(asked)


async def test_receive_with_a_timeout(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TimeoutError, match=r"no message within 0\.01 s"):
        await erlang.async_receive(timeout=0.01)
    with pytest.raises(TimeoutError):
        await erlang.async_receive(timeout=0)
    with pytest.raises(ValueError, match="negative"):
        await erlang.async_receive(timeout=-1)
    erlang.send(erlang.self(), 1)
    assert await erlang.async_receive(timeout=20) == 1


async def test_a_cancelled_receive_loses_nothing(loop: asyncio.AbstractEventLoop) -> None:
    pid = erlang.self()
    mailbox = erlang.mailbox()
    receiving = asyncio.ensure_future(mailbox.async_receive())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task is already waiting"):
        await mailbox.async_receive()
    receiving.cancel()
    await asyncio.wait([receiving])
    erlang.send(pid, "still there")
    assert await mailbox.async_receive() == "still there"


def test_messages_to_threads() -> None:
    pids: list[erlang.Pid] = []

    def body() -> None:
        pids.append(erlang.self())
        erlang.send(erlang.self(), "me")
        assert next(iter(erlang.mailbox())) == "me"
        with pytest.raises(TimeoutError):
            erlang.receive(timeout=0.01)
        pids.append(erlang.self())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert pids[0] == pids[1]
    assert ends(pids[0])


async def test_a_mailbox_is_of_a_task_or_a_thread(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(RuntimeError, match="async_receive"):
        erlang.receive()


async def test_an_actor(loop: asyncio.AbstractEventLoop) -> None:
    actor = erlang.spawn(echo)
    erlang.send(actor, (erlang.self(), "hello"))
    assert await erlang.async_receive(timeout=20) == "hello"
    erlang.send(actor, "stop")
    assert await has_ended(actor) in ("normal", "noproc")


async def test_the_reasons_of_actors(loop: asyncio.AbstractEventLoop) -> None:
    async def ends(how: str) -> None:
        await erlang.async_receive()
        if how == "exception":
            raise LookupError("gone")
        if how == "exit":
            raise erlang.Error("exit", Atom("shutdown"))
        if how == "cancel":
            raise asyncio.CancelledError

    async def reason(how: str) -> Any:
        actor = erlang.spawn(ends, how)
        async with erlang.monitor(actor):
            erlang.send(actor, 1)
            return (await erlang.async_receive(timeout=20))[4]

    assert await reason("return") == "normal"
    assert await reason("exit") == "shutdown"
    assert await reason("cancel") == ("shutdown", "cancelled")
    tag, exception = await reason("exception")
    assert tag == "py_exception"
    assert exception["type"] == "builtins.LookupError"
    assert exception["message"] == "gone"


async def test_killing_an_actor_cancels_it(loop: asyncio.AbstractEventLoop) -> None:
    cancelled = loop.create_future()

    async def body() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set_result(True)
            raise

    actor = erlang.spawn(body)
    await asyncio.sleep(0)
    await erlang.async_call("erlang", "exit", [actor, Atom("kill")])
    assert await cancelled


async def test_what_is_not_a_coroutine_function_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError, match="must be a coroutine function"):
        erlang.spawn(lambda: 1)  # type: ignore[arg-type,return-value]


def test_an_actor_of_a_loop_that_is_closed() -> None:
    """The task is never finished, but its pid ends."""
    loop = asyncio.new_event_loop()

    async def begin() -> erlang.Pid:
        async def body() -> None:
            await asyncio.sleep(3600)

        return erlang.spawn(body)

    actor = loop.run_until_complete(begin())
    assert is_alive(actor)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert ends(actor)


async def test_names(loop: asyncio.AbstractEventLoop) -> None:
    name = Atom("test_erlang_actors_name")
    assert erlang.whereis("no process has this name, nor is there such an atom") is None
    erlang.register(name)
    assert erlang.whereis("test_erlang_actors_name") == erlang.self()
    with pytest.raises(ValueError, match="cannot have the name"):
        erlang.register(name)
    erlang.send(name, 1)
    erlang.send("test_erlang_actors_name", 2)
    erlang.send((name, erlang.call("erlang", "node")), 3)
    assert [await erlang.async_receive() for _ in range(3)] == [1, 2, 3]
    erlang.unregister(name)
    assert erlang.whereis(name) is None
    with pytest.raises(ValueError, match="no process is registered"):
        erlang.unregister(name)
    with pytest.raises(ValueError, match="no process is registered"):
        erlang.send(name, 1)


@pytest.mark.parametrize("dest", [1, None, b"name", ["name"], ("a",), ("a", 1), {}])
def test_bad_destinations(dest: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        erlang.send(dest, 1)


async def test_a_monitor_leaves_no_message(loop: asyncio.AbstractEventLoop) -> None:
    actor = erlang.spawn(echo)
    async with erlang.monitor(actor):
        erlang.send(actor, "stop")
        # The message arrives before that of a later monitor of the same process.
        while is_alive(actor):
            await asyncio.sleep(0)
    erlang.send(erlang.self(), "next")
    assert await erlang.async_receive(timeout=20) == "next"


async def test_a_monitor_of_a_name(loop: asyncio.AbstractEventLoop) -> None:
    async with erlang.monitor("init") as ref:
        assert isinstance(ref, erlang.Ref)
    missing = Atom("test_erlang_actors_missing")
    async with erlang.monitor(missing):
        message = await erlang.async_receive(timeout=20)
    assert message[0] == "DOWN"
    assert message[4] == "noproc"


async def test_a_link_breaks(loop: asyncio.AbstractEventLoop) -> None:
    actor = erlang.spawn(echo)
    with pytest.raises(erlang.Error) as caught:
        async with erlang.link(actor) as pid:
            assert pid == actor
            await erlang.async_call("erlang", "exit", [actor, Atom("shutdown")])
            await asyncio.sleep(3600)
    assert caught.value.kind == "exit"
    assert caught.value.reason == "shutdown"
    # The task itself is not cancelled.
    await asyncio.sleep(0)


async def test_a_link_to_a_dead_process(loop: asyncio.AbstractEventLoop) -> None:
    """The process may die while the link is created: each time it is the same error."""
    dead = erlang.call("erlang", "self")
    for _ in range(200):
        with pytest.raises(erlang.Error, match="exit: noproc"):
            async with erlang.link(dead):
                await asyncio.sleep(3600)
    await asyncio.sleep(0)


async def test_a_normal_end_breaks_no_link(loop: asyncio.AbstractEventLoop) -> None:
    actor = erlang.spawn(echo)
    async with erlang.link(actor):
        erlang.send(actor, "stop")
        while is_alive(actor):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)  # Long enough for a cancellation, if there were one.


async def test_links_in_links(loop: asyncio.AbstractEventLoop) -> None:
    actor = erlang.spawn(echo)
    async with erlang.link(actor):
        async with erlang.link(actor):
            pass
        linked = await erlang.async_call("erlang", "process_info", [actor, Atom("links")])
        assert erlang.self() in linked[1]
    linked = await erlang.async_call("erlang", "process_info", [actor, Atom("links")])
    assert erlang.self() not in linked[1]
    erlang.send(actor, "stop")


async def test_cancelling_inside_a_link(loop: asyncio.AbstractEventLoop) -> None:
    """Another task cancels it: that is not a death."""
    actor = erlang.spawn(echo)
    linked = asyncio.Event()

    async def body() -> None:
        async with erlang.link(actor):
            linked.set()
            await asyncio.sleep(3600)

    task = asyncio.ensure_future(body())
    await linked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_alive(actor)
    erlang.send(actor, "stop")


@pytest.mark.parametrize("kind", ["monitor", "link"])
async def test_cancelling_while_it_is_made_or_ended(
    kind: str, loop: asyncio.AbstractEventLoop
) -> None:
    """At whatever moment: the task goes on, and its process has no monitor or link left."""
    other = erlang.spawn(echo)

    async def left(over: asyncio.Event) -> list[Any]:
        me = erlang.self()
        try:
            async with getattr(erlang, kind)(other):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        over.set()
        await asyncio.sleep(0)
        _, watched = await erlang.async_call("erlang", "process_info", [me, Atom(f"{kind}s")])
        return [one for one in watched if other in (one if isinstance(one, tuple) else (one,))]

    cancelled = 0
    for number in range(300):
        over = asyncio.Event()
        task = asyncio.ensure_future(left(over))
        for _ in range(1 + number % 15):
            await asyncio.sleep(0)
        if not over.is_set():
            cancelled += task.cancel()
        assert await task == []
    assert cancelled
    erlang.send(other, "stop")


async def test_the_process_dies_while_the_link_is_ended(loop: asyncio.AbstractEventLoop) -> None:
    """The block has the death as its error or has ended before; the task is not cancelled."""
    for _ in range(100):
        actor = erlang.spawn(echo)
        with contextlib.suppress(erlang.Error):
            async with erlang.link(actor):
                erlang.cast("erlang", "exit", [actor, Atom("shutdown")])
        await asyncio.sleep(0)


def test_links_are_to_pids() -> None:
    with pytest.raises(TypeError, match="a link is to a Pid"):
        erlang.link("init")  # type: ignore[arg-type]


async def test_many_actors(loop: asyncio.AbstractEventLoop) -> None:
    me = erlang.self()
    actors = [erlang.spawn(echo) for _ in range(300)]
    for number, actor in enumerate(actors):
        erlang.send(actor, (me, number))
    assert {await erlang.async_receive(timeout=20) for _ in actors} == set(range(300))
    for actor in actors:
        erlang.send(actor, "stop")
    for actor in actors:
        assert await has_ended(actor) in ("normal", "noproc")


async def test_nothing_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    tasks = []

    async def body() -> None:
        tasks.append(weakref.ref(asyncio.current_task()))
        with pytest.raises(TimeoutError):
            await erlang.async_receive(timeout=0.001)

    actors = [erlang.spawn(body) for _ in range(10)]
    for actor in actors:
        await has_ended(actor)
    await asyncio.sleep(0)
    gc.collect()
    assert [task() for task in tasks] == [None] * 10
