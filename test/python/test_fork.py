"""Copies of the node: what `os.fork` makes, and `multiprocessing` if told to.

In a copy there is no Erlang VM, only Python. A loop made there once waited for the VM for ever;
now it waits by itself.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

import pytest

pytestmark = [
    # Python's own, from 3.12 on, and ours: both say what this file shows to work.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
]


async def work() -> int:
    """Something of all a loop waits for: time, a socket, a child, another thread."""
    await asyncio.sleep(0.03)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    assert await reader.read() == b""
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
    return await child.wait() + await asyncio.get_running_loop().run_in_executor(None, int, "4")


def run_work() -> int:
    return asyncio.run(work())


async def test_pool_of_copies(loop):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        answers = [loop.run_in_executor(pool, run_work) for _ in range(4)]
        assert await asyncio.gather(*answers) == [7] * 4
    # The loop here is unharmed.
    assert await work() == 7


async def test_copy_of_a_running_loop(loop):
    """A copy forgets the running loop it was made in."""
    copy = os.fork()
    if copy == 0:
        os._exit(asyncio.run(work()))
    _, status = await loop.run_in_executor(None, os.waitpid, copy, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert await work() == 7


async def test_signals_in_a_copy(loop):
    """They come to the copy's own loop; add_signal_handler needs no VM there."""

    async def handle() -> int:
        arrived = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, arrived.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(arrived.wait(), 10)
        return 5

    copy = os.fork()
    if copy == 0:
        os._exit(asyncio.run(handle()))
    _, status = await loop.run_in_executor(None, os.waitpid, copy, 0)
    assert os.waitstatus_to_exitcode(status) == 5
