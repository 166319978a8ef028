"""What a test must not leave behind: open fds, live loops, tasks, transports.

ResourceWarnings are errors (pyproject.toml), and pytest reports those of destructors; the
collection here makes them appear in the test that caused them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Iterator

#: Seconds for what ends by itself: a connection's last callback, an fd that the VM still polls.
GRACE = 5


@contextlib.contextmanager
def none_left() -> Iterator[None]:
    """Compares before and after."""
    gc.collect()
    # What is there already is not looked at again, which keeps this quick.
    gc.freeze()
    before = open_fds()
    try:
        yield
        gc.collect()
        loops = live_loops()
        assert loops == [], f"loops were not closed: {loops}"
        fds_come_back(before)
    finally:
        gc.unfreeze()


def fds_come_back(before: dict[int, str]) -> None:
    """The VM closes the fds of a loop after its poller has released them, so this may wait."""
    deadline = time.monotonic() + GRACE
    while (left := _new(before)) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert left == {}, f"fds were left open: {left}"


def open_fds() -> dict[int, str]:
    """Every open fd, and what it is; without the one that the watchdog makes once, when it first
    reports a loop, and on a busy machine that may be any."""
    fds = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            fds[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return {fd: what for fd, what in fds.items() if "python-stacks" not in what}


def _new(before: dict[int, str]) -> dict[int, str]:
    return {fd: what for fd, what in open_fds().items() if before.get(fd) != what}


def live_loops() -> list[asyncio.AbstractEventLoop]:
    """Loops made since the last `gc.freeze` that were not closed."""
    return [
        thing
        for thing in gc.get_objects()
        if isinstance(type(thing), type)
        and issubclass(type(thing), asyncio.AbstractEventLoop)
        and not thing.is_closed()
    ]


def settle(loop: asyncio.AbstractEventLoop) -> None:
    """Lets tasks and connections that are about to end do so; fails if some do not."""
    if loop.is_closed():
        return

    async def ended() -> None:
        deadline = loop.time() + GRACE
        while _unfinished(loop) and loop.time() < deadline:
            await asyncio.sleep(0.001)  # Each ends in its own way; there is no event for all.

    loop.run_until_complete(ended())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    left = _unfinished(loop)
    assert left == [], f"tasks or transports were left: {left}"


def _unfinished(loop: asyncio.AbstractEventLoop) -> list[object]:
    tasks = asyncio.all_tasks(loop)
    with contextlib.suppress(RuntimeError):
        tasks.discard(asyncio.current_task(loop))
    open_transports = [each for each in loop._transports.values() if each._sock is not None]
    return [*tasks, *open_transports]
