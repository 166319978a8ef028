"""asyncio's primitives on the timers of the Erlang VM.

import erlang_asyncio

async def main():
    await erlang_asyncio.sleep(0.1)

erlang_asyncio.run(main())

`run` and the functions for loops use ErlangEventLoop; tasks and futures are asyncio's own and can
be mixed with any asyncio code. `docs/erlang_asyncio.md` is the reference.
"""

try:
    import py_event_loop  # type: ignore[import-not-found] # noqa: F401
except ImportError:
    from erlang_loop_default import not_here

    raise not_here("erlang_asyncio") from None

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
    timeout,
    wait,
    wait_for,
)

from erlang_loop import new_event_loop, run

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
