"""Loops themselves: making, running, stopping, closing, and many of them."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket

import leaks
import pytest


def test_2000_loops_one_after_another(loop):
    """A closed loop has no fd, even while the object is still referenced."""
    before = leaks.open_fds()
    kept = []
    for _ in range(2000):
        other = type(loop)()
        other.run_until_complete(asyncio.sleep(0))
        other.close()
        kept.append(other)
    leaks.fds_come_back(before)


@pytest.mark.ours
def test_loops_that_slept_close_their_fds(loop):
    """They were in the VM's poll set, which releases them a little later."""
    kept = []
    parked = 0
    before = leaks.open_fds()
    for _ in range(100):
        other = type(loop)()
        other.run_until_complete(asyncio.sleep(0.03))
        parked += other._counters()["parks"] > 0
        other.close()
        kept.append(other)
    # On a busy machine some sleep through their time before they come to park.
    assert parked > 10
    leaks.fds_come_back(before)


def test_stop(loop):
    ran = []
    loop.call_soon(ran.append, 1)
    loop.call_soon(loop.stop)
    loop.call_soon(ran.append, 2)
    loop.run_forever()
    assert ran == [1, 2]
    loop.stop()
    loop.call_soon(ran.append, 3)
    loop.run_forever()  # Stopped before: one turn.
    assert ran == [1, 2, 3]


def test_stop_before_the_result(loop):
    future = loop.create_future()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match="stopped before Future completed"):
        loop.run_until_complete(future)


def test_close(loop):
    other = type(loop)()
    fired = []
    other.call_soon(fired.append, 1)
    other.call_later(0, fired.append, 2)
    other.close()
    other.close()
    assert other.is_closed()
    assert fired == []
    for call in (
        lambda: other.call_soon(print),
        lambda: other.call_later(1, print),
        lambda: other.call_at(1, print),
        lambda: other.call_soon_threadsafe(print),
        other.run_forever,
        lambda: other.add_reader(0, print),
        lambda: other.run_in_executor(None, print),
    ):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call()


def test_close_while_running(loop):
    async def main() -> None:
        with pytest.raises(RuntimeError):
            loop.close()

    loop.run_until_complete(main())


def test_unclosed_loop_warns(loop):
    other = type(loop)()
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        other.__del__()
    assert other.is_closed()


def test_forgotten_transport_warns(loop):
    async def main() -> None:
        near, far = socket.socketpair()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            transport.__del__()
        far.close()
        await asyncio.sleep(0)
        near.close()
        transport.abort()

    loop.run_until_complete(main())


def test_asyncgens_are_finished(loop):
    finished = []

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            finished.append("numbers")

    async def main() -> None:
        generator = numbers()
        assert await generator.__anext__() == 1
        await loop.shutdown_asyncgens()
        assert finished == ["numbers"]

    loop.run_until_complete(main())


def test_forgotten_asyncgen_is_finished_by_the_loop(loop):
    finished = asyncio.Event()

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            finished.set()

    async def main() -> None:
        async for _ in numbers():
            break
        gc.collect()
        await finished.wait()

    loop.run_until_complete(main())


def test_run_once_called_by_a_program(loop):
    """`_run_once` is private, but some programs drive loops with it."""
    ran = []
    loop.call_soon(ran.append, "soon")
    loop.call_later(0.002, ran.append, "later")
    while len(ran) < 2:
        loop._run_once()
    assert ran == ["soon", "later"]


async def test_order_of_callbacks(loop):
    """First come, first served; what a callback adds waits for the next turn."""
    order = []

    def first() -> None:
        order.append("first")
        loop.call_soon(order.append, "added by first")

    loop.call_soon(first)
    loop.call_soon(order.append, "second")
    await asyncio.sleep(0)
    assert order == ["first", "second"]
    await asyncio.sleep(0)
    assert order == ["first", "second", "added by first"]


async def test_busy_loop_still_sees_its_sockets(loop):
    """Callbacks that always add another do not starve fds and timers."""
    near, far = socket.socketpair()
    near.setblocking(False)
    stop = False

    def spin() -> None:
        if not stop:
            loop.call_soon(spin)

    spin()
    far.send(b"x")
    assert await loop.sock_recv(near, 1) == b"x"
    waiting = asyncio.ensure_future(loop.sock_recv(near, 1))
    await asyncio.sleep(0.005)
    far.send(b"y")
    assert await waiting == b"y"
    stop = True
    near.close()
    far.close()


#: Ours are native, or views of what is: those that wait, the transports, the pipe to itself.
NOT_IN_OUR_DICT = {"_ready", "_scheduled", "_transports", "_ssock", "_csock", "_selector"}


@pytest.mark.ours
def test_it_begins_with_all_that_asyncios_loop_begins_with(loop):
    """`__init__` is our own, because asyncio's takes longer."""
    theirs = asyncio.SelectorEventLoop()
    try:
        # While it runs, in a test.
        running = {"_thread_id", "_old_agen_hooks", "_exception_handler"}
        for name in set(vars(theirs)) - NOT_IN_OUR_DICT - running:
            mine, its = getattr(loop, name), getattr(theirs, name)
            assert type(mine) is type(its), f"{name}: {mine!r} instead of {its!r}"
    finally:
        theirs.close()


@pytest.mark.ours
async def test_its_dict_is_for_others(loop):
    """CPython finds the methods of an object without one in fewer steps."""
    await asyncio.create_task(asyncio.sleep(0))
    await loop.run_in_executor(None, int)
    loop.add_signal_handler(signal.SIGUSR1, int)
    loop.remove_signal_handler(signal.SIGUSR1)
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    assert vars(loop) == {}
    loop.mine = 1
    assert vars(loop) == {"mine": 1}


@pytest.mark.ours
def test_it_says_which_selector_it_has(loop, caplog):
    with caplog.at_level("DEBUG", logger="asyncio"):
        type(loop)().close()
    assert "Using selector: SelectorView" in caplog.text


@pytest.mark.ours
def test_methods_of_its_own_can_be_overridden(loop):
    """The class has native methods of its own: those of a class below it count, and of a mixin."""
    from erlang_loop import _native

    asked = []

    class Noting:
        def call_soon(self, callback, *args, **named):
            asked.append(args)
            return super().call_soon(callback, *args, **named)

    class Other(Noting, type(loop)):
        pass

    other = Other()
    try:
        other.call_soon(asked.append, "ran")
        other.call_soon(other.stop)
        other.run_forever()
    finally:
        other.close()
    assert asked == [("ran",), (), "ran"]
    with pytest.raises(TypeError, match="not a class of loops"):
        _native.own_methods(int)
    with pytest.raises(TypeError, match="call_soon"):
        type(loop).call_soon(object(), print)
