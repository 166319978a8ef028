"""Copies of the node: made by `os.fork`, and by `multiprocessing` if it is set to fork.

In a copy there is no Erlang VM, only Python. A loop made there once waited for the VM forever;
now it waits by itself.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

import pytest
from command import ERLANG_LOOP, run, same_as_python

pytestmark = [
    # Python's own, from 3.12 on, and ours: both warn of what this file tests.
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


END = "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"

EXEC = {
    "pty": "child, _ = pty.fork()\nchild or os.execvp('true', ['true'])",
    "elsewhere": (
        "def start():\n    os.setsid()\n    os.execv('/bin/sh', ['sh', '-c', 'exit 3'])\n"
        "child = os.fork()\nchild or start()"
    ),
    "not found": (
        "child = os.fork()\nif not child:\n    try:\n        os.execv('/no/program', ['program'])\n"
        "    except OSError:\n        os._exit(127)"
    ),
}


@pytest.mark.parametrize("code", EXEC.values(), ids=EXEC)
@pytest.mark.parametrize("filters", ["ignore::DeprecationWarning", "error"])
def test_no_warning_where_exec_follows(code: str, filters: str) -> None:
    # DeprecationWarning: from 3.12 on Python's own, in any process with threads.
    ended = same_as_python("-W", filters, "-c", f"import os, pty\n{code}\n{END}")
    assert ended.err == ""


GOES_ON = {
    "os._exit": ("child = os.fork()\nif not child: os._exit(3)", 3),
    "sys.exit": ("child = os.fork()\nif not child: sys.exit(3)", 3),
    "the program's end": ("child = os.fork()\nif not child: END = 0", 0),
    "an event loop": (
        "child = os.fork()\nif not child: asyncio.run(asyncio.sleep(0)); os.kill(os.getpid(), 9)",
        -9,
    ),
    "multiprocessing": (
        "process = multiprocessing.get_context('fork').Process(target=os.kill, args=(0, 0))\n"
        "process.start(); child = process.pid",
        0,
    ),
}


@pytest.mark.parametrize(("code", "status"), GOES_ON.values(), ids=GOES_ON)
def test_a_warning_where_python_goes_on(code: str, status: int) -> None:
    start = "import asyncio, multiprocessing, os, sys\nEND = None"
    ended = run(ERLANG_LOOP, "-c", f"{start}\n{code}\nif END is None: {END}")
    assert ended.out == f"{status}\n"
    ours = [line for line in ended.err.splitlines() if "RuntimeWarning" in line]
    assert len(ours) == 1
    assert "os.fork() copies the Erlang VM" in ours[0]


def test_a_warning_that_is_an_error_does_not_change_how_a_child_ends() -> None:
    for leave in ["os._exit(3)", "sys.exit(3)"]:
        code = f"import os, sys\nchild = os.fork()\nif not child: {leave}\n{END}"
        ended = run(ERLANG_LOOP, "-W", "error::RuntimeWarning", "-c", code)
        assert ended.out == "3\n"
        assert "RuntimeWarning: os.fork() copies the Erlang VM" in ended.err
