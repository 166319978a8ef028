"""asyncio's primitives on the timers of the Erlang VM.

import erlang_asyncio

async def main():
    await erlang_asyncio.sleep(0.1)

erlang_asyncio.run(main())

`run` and the functions about loops use ErlangEventLoop; tasks, futures and waiting are asyncio's
own, so that they mix with any other asyncio code. `docs/erlang_asyncio.md` is the reference.
"""

try:
    import py_event_loop  # type: ignore[import-not-found] # noqa: F401
except ImportError:
    raise ImportError(
        "erlang_asyncio works inside an Erlang node: run your program with `bin/erlang-loop "
        "program.py`, or start the erlang_loop application in your own node"
    ) from None

from asyncio import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    CancelledError,
    TimeoutError,  # noqa: A004 - asyncio's name for it
    create_task,
    ensure_future,
    gather,
    get_running_loop,
    set_event_loop,
    shield,
    wait,
    wait_for,
)

from erlang_loop import new_event_loop, run
from erlang_loop.compat import timeout

from .current_loop import get_event_loop
from .sleeping import sleep

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "CancelledError",
    "TimeoutError",
    "create_task",
    "ensure_future",
    "gather",
    "get_event_loop",
    "get_running_loop",
    "new_event_loop",
    "run",
    "set_event_loop",
    "shield",
    "sleep",
    "timeout",
    "wait",
    "wait_for",
]
