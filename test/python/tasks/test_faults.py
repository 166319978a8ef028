"""What a program should not do, but may do; docs/faults.md has the whole list.

Each test causes the fault and then checks that the loop and its tasks continue.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time

import erlang_loop
import pytest
from both_loops import LOOPS
from connections import Recorder, connected, eventually


async def still_works(loop: asyncio.AbstractEventLoop) -> None:
    """A callback, a timer and a connection."""
    ran: list[str] = []
    loop.call_soon(ran.append, "soon")
    loop.call_later(0.001, ran.append, "later")
    await eventually(lambda: ran == ["soon", "later"])
    async with connected() as (near, far):
        near.transport.write(b"hello")
        await eventually(lambda: far.data == b"hello")


async def test_unbounded_recursion(loop, unhandled):
    def again() -> None:
        again()

    loop.call_soon(again)
    await eventually(lambda: unhandled)
    assert isinstance(unhandled.pop()["exception"], RecursionError)
    with pytest.raises(RecursionError):
        await loop.create_task(deeper())
    await still_works(loop)


async def deeper() -> None:
    await deeper()


async def test_no_memory(loop, unhandled):
    def too_much() -> None:
        bytearray(sys.maxsize // 2)

    loop.call_soon(too_much)
    await eventually(lambda: unhandled)
    assert isinstance(unhandled.pop()["exception"], MemoryError)
    await still_works(loop)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_destructors_that_raise(loop):
    """Of a callback's argument, a protocol, a task's result, a cancelled timer."""
    died: list[int] = []

    class Dies:
        def __del__(self) -> None:
            died.append(1)
            raise ValueError("in a destructor")

        def __call__(self, *_args: object) -> None:
            pass

    class Protocol(Recorder):
        def __del__(self) -> None:
            died.append(1)
            raise ValueError("in a destructor")

    async def answer() -> Dies:
        return Dies()

    loop.call_soon(Dies(), Dies())
    loop.call_later(60, Dies()).cancel()
    assert await loop.create_task(answer()) is not None
    read, write = os.pipe()
    transport, protocol = await loop.connect_read_pipe(Protocol, os.fdopen(read, "rb"))
    os.close(write)
    await eventually(transport.is_closing)
    del transport, protocol
    await eventually(lambda: gc.collect() >= 0 and len(died) >= 4)
    await still_works(loop)


async def test_a_full_disk(loop):
    """/dev/full returns ENOSPC for every write."""
    transport, protocol = await loop.connect_write_pipe(Recorder, open("/dev/full", "wb"))  # noqa: ASYNC230, SIM115
    transport.write(b"no room")
    await protocol.lost
    assert transport.is_closing()
    await still_works(loop)


def test_threads_that_post_to_a_closing_loop(loop_name, nothing_left):
    """Whatever they post either runs or is refused; nothing hangs and nothing is left open."""
    for _ in range(30):
        close_while_posted_to(LOOPS[loop_name])


def close_while_posted_to(make: type) -> None:
    victim = make()
    go = threading.Barrier(5)
    refused: list[int] = []

    def post() -> None:
        go.wait()
        while True:
            try:
                victim.call_soon_threadsafe(int)
            except RuntimeError:
                refused.append(1)
                return

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    go.wait()
    victim.run_until_complete(asyncio.sleep(0.001))
    victim.close()
    for thread in threads:
        thread.join(20)
    assert len(refused) == 4


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.ours
def test_loops_collected_in_the_middle_of_use(loop_name, nothing_left):
    """Dropped with callbacks, timers, watches and tasks in them, in reference cycles."""
    for _ in range(50):
        dropped = erlang_loop.new_event_loop()
        read, write = os.pipe()
        dropped.add_reader(read, int)
        dropped.call_later(60, int)
        dropped.call_soon(dropped.stop)
        dropped.cycle = dropped
        dropped.run_forever()
        os.close(read)
        os.close(write)
        del dropped
        gc.collect()


async def test_a_storm_of_cancels(loop):
    """Tasks that are cancelled at every stage of their lives, some of them twice."""
    ended = []

    async def work(number: int) -> None:
        try:
            await asyncio.sleep(number % 7 / 1000)
            await asyncio.to_thread(time.sleep, 0) if number % 500 == 0 else await asyncio.sleep(0)
        finally:
            ended.append(number)

    tasks = [loop.create_task(work(number)) for number in range(5000)]
    for turn in range(8):
        await asyncio.sleep(0.001)
        for task in tasks[turn::8]:
            task.cancel()
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
    # A task that was cancelled before its first step has not begun; all others have ended.
    assert len(set(ended)) == len(ended)
    await still_works(loop)


async def test_a_child_that_leaves_with_os_exit(loop):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import os; os._exit(7)", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert (output, process.returncode) == (b"", 7)
    await still_works(loop)


async def test_a_peer_that_never_reads(loop):
    """Memory stays bounded: `drain` waits, and the connection can still be dropped."""
    stalled = asyncio.Event()

    async def hold(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        _reader._transport.pause_reading()
        await stalled.wait()
        _writer.transport.abort()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    _reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    with pytest.raises(asyncio.TimeoutError):
        while True:
            writer.write(bytes(100_000))
            await asyncio.wait_for(writer.drain(), 0.2)
    assert writer.transport.get_write_buffer_size() < 1_000_000
    writer.transport.abort()
    stalled.set()
    server.close()
    await server.wait_closed()
    await still_works(loop)
