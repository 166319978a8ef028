"""What code on a loop sees of its loop, its thread and the other loops there. Suites call it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import socket
import sys
import threading
import time
from typing import Any

_loops: dict[str, asyncio.AbstractEventLoop] = {}
_generators: list[Any] = []
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def _policy_loop() -> asyncio.AbstractEventLoop:
    """What the thread's policy has, whether a loop runs or not."""
    return asyncio.get_event_loop_policy().get_event_loop()


async def surroundings() -> dict[str, bool]:
    """All true, also after it has waited while other loops ran."""
    await asyncio.sleep(0.001)
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    hooks = sys.get_asyncgen_hooks()
    return {
        "running": loop.is_running(),
        "loop of the thread": _policy_loop() is loop,
        "task of the loop": task is not None and task.get_loop() is loop,
        "thread of the loop": loop._thread_id == threading.get_ident(),  # type: ignore[attr-defined]
        "hooks": hooks.finalizer.__self__ is loop,  # type: ignore[attr-defined]
        "nested run": _raises(loop, "This event loop is already running"),
        "other run": _raises(
            asyncio.new_event_loop(), "Cannot run the event loop while another loop is running"
        ),
    }


def _raises(loop: asyncio.AbstractEventLoop, text: str) -> bool:
    waiting = asyncio.sleep(0)
    try:
        loop.run_until_complete(waiting)
    except RuntimeError as error:
        return str(error) == text
    finally:
        waiting.close()
        if not loop.is_running():
            loop.close()
    return False


_ending = 0


async def end_after_a_sleep(seconds: float) -> None:
    """Its end blocks the thread."""
    global _ending
    _ending += 1
    try:
        await asyncio.sleep(3600)
    finally:
        time.sleep(seconds)  # noqa: ASYNC251  on purpose
        _ending -= 1


def sleeping() -> int:
    """How many of these have not ended."""
    return _ending


async def remember(name: str) -> None:
    _loops[name] = asyncio.get_running_loop()


async def forget() -> None:
    _loops.clear()
    _generators.clear()


async def is_running_elsewhere(name: str) -> bool:
    """Another loop of the same thread is running, though this one has its turn."""
    other = _loops[name]
    return other is not asyncio.get_running_loop() and other.is_running()


async def call_there(name: str) -> bool:
    """Runs a callback on another loop and waits for it."""
    here = asyncio.get_running_loop()
    done: asyncio.Future[bool] = here.create_future()

    def callback() -> None:
        ran_there = asyncio.get_running_loop() is _loops[name]
        here.call_soon_threadsafe(done.set_result, ran_there)

    _loops[name].call_soon_threadsafe(callback)
    return await done


async def start_generator(name: str) -> None:
    """Finalized by the loop on which it began, wherever it is dropped."""

    async def generator() -> Any:
        try:
            yield 1
        finally:
            import called

            await asyncio.sleep(0)
            called.note(f"{name}: {asyncio.get_running_loop() is _loops[name]}")

    started = generator()
    await started.__anext__()
    _generators.append(started)


async def drop_generators() -> None:
    _generators.clear()


async def read_variable() -> str:
    return variable.get()


async def set_variable(value: object) -> str:
    """What it was before."""
    before = variable.get()
    variable.set(str(value))
    await asyncio.sleep(0)
    assert variable.get() == str(value)
    return before


async def echo(count: int) -> int:
    """Sends itself bytes over a socket pair, with pauses in which the loop sleeps."""
    left, right = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=left)
    _, other = await asyncio.open_connection(sock=right)
    received = 0
    for number in range(count):
        await asyncio.sleep(0.01 if number % 10 == 0 else 0)
        other.write(b"x")
        received += len(await reader.readexactly(1))
    for end in (writer, other):
        end.close()
        await end.wait_closed()
    return received


async def wait_for_byte(fd: int) -> bytes:
    """Sleeps until another process writes to the fd."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, ready.set_result, None)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
    import os

    return os.read(fd, 100)


async def write_times(count: int) -> None:
    """A writer beside a reader is called `count` times, though nothing else happens on the loop."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    told = loop.create_future()
    left = count

    def write() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            told.set_result(None)

    loop.add_reader(ours, ours.recv, 1)
    # The kernel watches for the reader first.
    await asyncio.sleep(0.01)
    loop.add_writer(ours, write)
    try:
        await told
    finally:
        loop.remove_writer(ours)
        loop.remove_reader(ours)
        ours.close()
        theirs.close()


async def be_busy() -> None:
    """Computes for most of its time, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        until = loop.time() + 0.005
        while loop.time() < until:
            pass
        await asyncio.sleep(0.001)


async def counters() -> dict[str, int]:
    """What the native loop has done so far."""
    loop: Any = asyncio.get_running_loop()
    return dict(loop._counters())


_nested: list[int] = []


async def watch_nested(depth: int) -> None:
    """Has the loop watch epoll sets inside of each other, with a pipe in the innermost."""
    reader, writer = os.pipe()
    inner = reader
    _nested.extend([writer, reader])
    for _ in range(depth):
        outer = select.epoll()
        outer.register(inner, select.EPOLLIN)
        inner = os.dup(outer.fileno())
        outer.close()
        _nested.append(inner)
    loop = asyncio.get_running_loop()
    heard = loop.create_future()
    loop.add_reader(inner, lambda: heard.done() or heard.set_result(None))
    globals()["_heard"] = heard


async def hear_nested() -> None:
    """Writes into the pipe, and waits until the loop has noticed."""
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, os.write, _nested[0], b"x")
    await globals()["_heard"]
    loop.remove_reader(_nested[-1])
    while _nested:
        os.close(_nested.pop())
