"""What py_output_SUITE and py_logging_SUITE call: functions that print, log and fail."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator

log = logging.getLogger("app.db")


async def print_later(text: str, times: int) -> None:
    """In pieces: other code runs in the middle of a line."""
    for number in range(times):
        print(text, end="")
        await asyncio.sleep(0)
        print("", number)


async def print_in_subtask(text: str) -> None:
    async def inner() -> None:
        print(text, "task")
        await asyncio.to_thread(print, text, "thread")

    await asyncio.ensure_future(inner())


def print_in_threads(count: int, times: int) -> None:
    """Whole lines, though every thread writes them in pieces."""

    def work(number: int) -> None:
        for _ in range(times):
            for _ in range(8):
                sys.stdout.write(str(number))
            sys.stdout.write("\n")

    import contextvars

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, number))
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def generate(count: int) -> Iterator[int]:
    for number in range(count):
        print("plain", number)
        yield number
    print("end", end="")


async def generate_later(count: int) -> AsyncIterator[int]:
    for number in range(count):
        print("later", number)
        await asyncio.sleep(0)
        yield number
    print("end", end="")


def print_in_bare_thread(text: str) -> None:
    thread = threading.Thread(target=print, args=(text,))
    thread.start()
    thread.join()


def begin_line_in_thread(text: str) -> None:
    """The thread ends before its line does."""
    import contextvars

    work = contextvars.copy_context().run
    thread = threading.Thread(target=work, args=(sys.stdout.write, text))
    thread.start()
    thread.join()


def print_lines(count: int, width: int) -> None:
    for number in range(count):
        print(f"{number:0{width}}")


def print_split_character() -> None:
    sys.stdout.buffer.write("a€"[:1].encode() + b"\xe2\x82")
    sys.stdout.flush()
    sys.stdout.buffer.write(memoryview(b"\xac \xff\n"))


def describe_streams() -> list[object]:
    return [
        [stream.encoding, stream.isatty(), stream.writable(), stream.readable(), stream.name]
        for stream in (sys.stdout, sys.stderr)
    ]


def give_streams_to_a_child() -> list[int]:
    """As libraries do with `stderr=sys.stderr`; it writes to the node's own."""
    words = [sys.executable, "-c", "import os; os.write(1, b''); os.write(2, b'')"]
    done = subprocess.run(words, stdout=sys.stdout, stderr=sys.stderr, check=False)
    return [sys.stdout.fileno(), sys.stderr.fileno(), done.returncode]


def fork_and_print() -> int:
    pid = os.fork()
    if pid == 0:
        print("printed in the copy")
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def log_record(level: int, text: str, extra: dict | None = None) -> None:
    root = logging.getLogger()
    before = root.level
    root.setLevel(1)
    try:
        log.log(level, text, extra=extra)
    finally:
        root.setLevel(before)


async def log_in_task(text: str) -> None:
    log.warning(text)


def log_exception(text: str) -> None:
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("no value") from error
    except ValueError:
        log.exception(text)


def log_many(count: int) -> None:
    for number in range(count):
        log.warning("record %d", number)


def log_strange() -> None:
    log.warning("lone \ud800 surrogate", extra={"object": object(), "nan": float("nan")})


def log_badly() -> None:
    log.warning("%d", "no number")


async def fail_in_callback() -> None:
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)


async def fail_in_forgotten_task() -> None:
    async def inner() -> None:
        raise ValueError("unasked")

    task = asyncio.ensure_future(inner())
    await asyncio.wait([task])
    del task
    gc.collect()


async def leave_in_task() -> None:
    async def inner() -> None:
        raise SystemExit(3)

    task = asyncio.ensure_future(inner())
    await asyncio.sleep(0.001)
    del task


def fail_in_thread() -> None:
    def work() -> None:
        raise LookupError("in a thread")

    thread = threading.Thread(target=work, name="worker-7")
    thread.start()
    thread.join()


def leave_in_thread() -> None:
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()


def fail_in_finalizer() -> None:
    class Finalized:
        def __del__(self) -> None:
            raise OSError("in a finalizer")

    Finalized()
