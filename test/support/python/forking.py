"""For py_fork_SUITE: functions that fork, and whose children go different ways.

A child shares the node's memory as it was, not as it becomes: a pipe shows what happens twice.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

#: Everything that ran, in the node and in its children.
_read_end, _write_end = os.pipe()
#: Set when a function that forks may do so.
go = threading.Event()


def note(what: str) -> str:
    os.write(_write_end, f"{what}\n".encode())
    return what


def noted() -> list[str]:
    go.clear()
    note("end")
    words: list[str] = []
    text = b""
    while not text.endswith(b"end\n"):
        text += os.read(_read_end, 4096)
    words = text.decode().split()
    return sorted(words[:-1])


async def allow() -> None:
    go.set()


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leave(how: str) -> str:
    """In a child: one of the ways to leave the function that forked."""
    atexit.register(note, "atexit")
    print("printed, without an end", end="")
    if how == "raise":
        raise ValueError("raised in a child")
    if how == "exit":
        sys.exit(3)
    if how == "say":
        sys.exit("said at the end")
    if how == "interrupt":
        raise KeyboardInterrupt
    return how


def fork(how: str) -> int:
    """Forks when other calls wait, and returns how the child ended."""
    assert go.wait(60)
    child = os.fork()
    if child == 0:
        return leave(how)  # type: ignore[return-value]
    return exit_code(child)


async def fork_in_coroutine(how: str) -> int:
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        if how == "await":
            await asyncio.sleep(0)
            note("awaited in a child")
        if how == "run":
            asyncio.run(asyncio.sleep(0.01, note("ran")))
            sys.exit(7)
        return leave(how)  # type: ignore[return-value]
    return await asyncio.get_running_loop().run_in_executor(None, exit_code, child)


async def fork_in_callback(how: str) -> int:
    loop = asyncio.get_running_loop()
    children = []

    def callback() -> None:
        child = os.fork()
        if child == 0:
            leave(how)
            return
        children.append(child)

    loop.call_soon(callback)
    loop.call_soon(note, "next")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return await loop.run_in_executor(None, exit_code, children[0])


def fork_in_generator(how: str) -> Iterator[int]:
    child = os.fork()
    if child == 0:
        yield leave(how)  # type: ignore[misc]
        note("went on in a child")
        return
    yield exit_code(child)


def fork_on_main_thread(how: str) -> int:
    go.set()
    return fork(how)


def signalled(number: int) -> int:
    """How a child ends that is sent this signal while it sleeps, -number for by the signal."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(read_end, 1)
    os.kill(child, number)
    os.close(read_end)
    os.close(write_end)
    return exit_code(child)


def signals_of_a_child() -> bool:
    """Whether a child has the signals of a fresh python."""
    code = (
        "import signal\n"
        "for number in sorted(signal.valid_signals()): print(number, signal.getsignal(number))"
    )
    # What the VM ignores is ignored in the programs it starts.
    taken = "import signal\nsignal.signal(signal.SIGFPE, signal.SIG_DFL)\n"
    fresh = subprocess.run([sys.executable, "-c", taken + code], capture_output=True, check=True)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_end, 1)
        exec(code, {"print": lambda *words: os.write(1, f"{words[0]} {words[1]}\n".encode())})
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        found = pipe.read()
    assert exit_code(child) == 0
    return [_named(line) for line in found.splitlines()] == [
        _named(line) for line in fresh.stdout.splitlines()
    ]


def _named(line: bytes) -> bytes:
    """Without the address of a built-in function."""
    return line.partition(b" at 0x")[0]


def _square(number: int) -> int:
    return number * number


def use_pools(count: int) -> int:
    context = multiprocessing.get_context("fork")
    for _ in range(count):
        with context.Pool(2) as pool:
            assert pool.map(_square, range(4)) == [0, 1, 4, 9]
    return count


def terminate_process() -> int | None:
    process = multiprocessing.get_context("fork").Process(target=signal.pause)
    process.start()
    process.terminate()
    process.join()
    return process.exitcode
