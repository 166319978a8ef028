"""Free-threaded Python: loops in several threads run at the same time, and nothing breaks.

All other tests run there, too. These are for what only the missing GIL makes possible.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import sysconfig
import threading

import pytest
from erlang_loop import ErlangEventLoop
from test_threads import chatter, in_threads

pytestmark = [
    pytest.mark.ours,
    pytest.mark.skipif(
        not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL"
    ),
]


def test_importing_us_enables_no_gil() -> None:
    """As Python does when an extension does not say that it needs none."""
    import erlang  # noqa: F401
    import erlang_asyncio  # noqa: F401
    import erlang_loop.http  # noqa: F401
    import py_event_loop  # noqa: F401

    assert not sys._is_gil_enabled()


@pytest.mark.parametrize("isolated", [False, True])
def test_callbacks_of_two_loops_run_at_the_same_moment(isolated: bool) -> None:
    """Each computes until the other does: with a GIL that is never released none would end."""
    running = [False, False]

    def run(number: int) -> int:
        loop = ErlangEventLoop(isolated=isolated)

        def meet() -> None:
            running[number] = True
            while not all(running):
                pass
            loop.stop()

        loop.call_soon(meet)
        loop.run_forever()
        loop.close()
        return number

    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        assert in_threads(2, run) == [0, 1]
    finally:
        sys.setswitchinterval(interval)


def test_loops_post_to_each_other() -> None:
    """Every callback arrives once, in the order of its sender, while all loops are busy."""
    count, posts = 4, 2000
    loops = [ErlangEventLoop(isolated=number % 2 == 1) for number in range(count)]
    heard: list[list[tuple[int, int]]] = [[] for _ in loops]

    def run(number: int) -> None:
        loop, mine = loops[number], heard[number]
        done = loop.create_future()

        def hear(sender: int, post: int) -> None:
            mine.append((sender, post))
            if len(mine) == count * posts:
                done.set_result(None)

        async def post() -> None:
            for one in range(posts):
                for other in range(count):
                    loops[other].call_soon_threadsafe(hears[other], number, one)
                if one % 100 == 0:
                    await asyncio.sleep(0)

        hears[number] = hear
        ready.wait()

        async def main() -> None:
            await asyncio.gather(post(), chatter(number))
            await done
            await loop.shutdown_default_executor()

        loop.run_until_complete(main())
        loop.close()

    hears: list = [None] * count
    ready = threading.Barrier(count)
    in_threads(count, run)
    for mine in heard:
        assert len(mine) == count * posts
        for sender in range(count):
            assert [one for who, one in mine if who == sender] == list(range(posts))


async def test_misuse_by_other_threads_breaks_nothing(loop) -> None:
    """Only call_soon_threadsafe may be called by other threads; the rest must not end the node."""
    stop = threading.Event()
    received = loop.create_future()

    class Count(asyncio.Protocol):
        taken = 0

        def data_received(self, data: bytes) -> None:
            self.taken += len(data)

        def connection_lost(self, error: Exception | None) -> None:
            received.set_result(self.taken)

    server = await loop.create_server(Count, "127.0.0.1", 0)
    transport, _ = await loop.create_connection(
        asyncio.Protocol, *server.sockets[0].getsockname()[:2]
    )
    written = itertools.count(1)
    shared = [loop.call_later(0.001, int) for _ in range(100)]

    def misuse(number: int) -> int:
        total = 0
        while not stop.is_set():
            loop.call_soon(int)
            loop.call_later(0.0001, int)
            loop.call_later(3600, int).cancel()
            shared[total % 100].cancel()
            shared[total % 100] = loop.call_later(0.001, int)
            transport.write(b"x")
            transport.get_write_buffer_size()
            repr(loop), repr(transport), loop.time()
            loop.create_future().cancel()
            next(written)
            total += 1
        return total

    threads = loop.run_in_executor(None, in_threads, 4, misuse)
    # The loop is as busy as they are, until each of them has done much.
    while next(written) < 20_000:
        shared[7].cancel()
        await asyncio.sleep(0)
    stop.set()
    sent = sum(await threads)
    transport.close()
    assert await received == sent
    server.close()
    await server.wait_closed()
    assert await chatter(1) == 1
