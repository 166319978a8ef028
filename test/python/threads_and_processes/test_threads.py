"""Loops in many threads, and callbacks from many threads into one loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading

import command
import erlang_loop
import pytest
from connections import echo
from erlang_loop import ErlangEventLoop


def in_threads(count: int, target) -> list[object]:
    """The results of `target(number)`, each called in its own thread, all at once."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        barrier = threading.Barrier(count)

        def run(number: int) -> object:
            barrier.wait()
            return target(number)

        return list(pool.map(run, range(count)))


async def chatter(number: int) -> int:
    """Something of everything: timers, a server, a connection, a thread."""
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for message in range(5):
            writer.write(b"%d %d\n" % (number, message))
            assert await reader.readline() == b"%d %d\n" % (number, message)
            await asyncio.sleep(0.001)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        assert await asyncio.get_running_loop().run_in_executor(None, abs, -number) == number
    return number


@pytest.mark.parametrize("count", [2, 30])
def test_loops_in_threads(loop, count):
    def run(number: int) -> object:
        other = type(loop)()
        try:
            result = other.run_until_complete(chatter(number))
            other.run_until_complete(other.shutdown_default_executor())
            return result
        finally:
            other.close()

    assert in_threads(count, run) == list(range(count))


@pytest.mark.ours
def test_isolated_loops_in_threads(loop):
    def run(number: int) -> object:
        other = ErlangEventLoop(isolated=True)
        try:
            assert other._loop_handle is not None
            result = other.run_until_complete(chatter(number))
            other.run_until_complete(other.shutdown_default_executor())
            return result
        finally:
            other.close()

    assert in_threads(20, run) == list(range(20))


def test_asyncio_run_in_a_thread_while_a_loop_runs(loop):
    async def main() -> list[int]:
        run = asyncio.to_thread
        return await asyncio.gather(*(run(asyncio.run, chatter(n)) for n in range(5)))

    assert loop.run_until_complete(main()) == list(range(5))


@pytest.mark.ours
def test_shared_loop_has_no_handle(loop):
    assert loop._loop_handle is None


@pytest.mark.ours
def test_isolated_loops_closed_at_once():
    """Each is closed before its Erlang process has come; that causes no error."""
    program = """
from erlang_loop import ErlangEventLoop
for _ in range(200):
    ErlangEventLoop(isolated=True).close()
"""
    ended = command.run(command.ERLANG_LOOP, "-c", program)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


@pytest.mark.ours
def test_callbacks_stay_in_their_loop():
    """Two isolated loops in one thread: turns of one do not run what belongs to the other."""
    first, second = ErlangEventLoop(isolated=True), ErlangEventLoop(isolated=True)
    ran = []
    try:
        first.call_soon(ran.append, "first")
        second.call_soon(ran.append, "second")
        first.call_later(0.001, ran.append, "first later")
        second.call_later(0.001, ran.append, "second later")
        first.run_until_complete(asyncio.sleep(0.005))
        assert ran == ["first", "first later"]
        second.run_until_complete(asyncio.sleep(0.005))
        assert ran[2:] == ["second", "second later"]
    finally:
        first.close()
        second.close()


async def test_call_soon_threadsafe_from_8_threads(loop):
    """80,000 callbacks: each is called, each thread's in their order."""
    called: dict[int, list[int]] = {number: [] for number in range(8)}
    done = loop.create_future()
    left = 8

    def finish() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    def post(thread: int) -> None:
        for number in range(10_000):
            loop.call_soon_threadsafe(called[thread].append, number)
        loop.call_soon_threadsafe(finish)

    threads = [threading.Thread(target=post, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    await done
    for thread in threads:
        thread.join()
    assert all(numbers == list(range(10_000)) for numbers in called.values())


async def test_wake_of_a_sleeping_loop(loop):
    """One wake at a time, each into a loop that went to sleep: none may get lost."""
    asked, answered = threading.Semaphore(0), asyncio.Event()
    stop = False

    def wake() -> None:
        while True:
            asked.acquire()
            if stop:
                return
            loop.call_soon_threadsafe(answered.set)

    thread = threading.Thread(target=wake)
    thread.start()
    for _ in range(2000):
        asked.release()
        await answered.wait()
        answered.clear()
    stop = True
    asked.release()
    thread.join()


async def test_wakes_after_all_kinds_of_pauses(loop):
    """Wakes that come while the loop spins, waits by itself, and is parked."""
    for pause in (0, 1e-5, 1e-4, 1e-3, 3e-3, 6e-3, 0.012, 0.03):
        for _ in range(5):
            woken = loop.create_future()
            timer = threading.Timer(pause, loop.call_soon_threadsafe, (woken.set_result, None))
            timer.start()
            await woken
            timer.join()


async def test_run_coroutine_threadsafe(loop):
    async def double(number: int) -> int:
        await asyncio.sleep(0.001)
        return number * 2

    def ask(number: int) -> int:
        return asyncio.run_coroutine_threadsafe(double(number), loop).result(30)

    answers = await asyncio.gather(*(asyncio.to_thread(ask, n) for n in range(20)))
    assert answers == [n * 2 for n in range(20)]


def test_stop_from_another_thread(loop):
    threading.Timer(0.02, loop.call_soon_threadsafe, (loop.stop,)).start()
    loop.run_forever()


def test_closed_loop_refuses(loop):
    other = type(loop)()
    other.close()
    with pytest.raises(RuntimeError):
        other.call_soon_threadsafe(print)


def test_running_in_two_threads(loop):
    """The second is refused, and the first goes on."""
    errors = []

    def run_again() -> None:
        try:
            loop.run_forever()
        except RuntimeError as error:
            errors.append(error)

    async def main() -> None:
        await asyncio.to_thread(run_again)
        await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    assert len(errors) == 1


def test_loop_inside_a_running_loop(loop):
    async def main() -> None:
        other = type(loop)()
        coroutine = asyncio.sleep(0)
        try:
            with pytest.raises(RuntimeError):
                other.run_until_complete(coroutine)
        finally:
            coroutine.close()
            other.close()

    loop.run_until_complete(main())


@pytest.mark.ours
def test_new_loops_are_ours():
    """In the VM, asyncio.run runs on our loop, in any thread."""

    async def main() -> type:
        return type(asyncio.get_running_loop())

    assert asyncio.run(main()) is ErlangEventLoop
    assert erlang_loop.run(main()) is ErlangEventLoop
    assert in_threads(2, lambda _: asyncio.run(main())) == [ErlangEventLoop] * 2
