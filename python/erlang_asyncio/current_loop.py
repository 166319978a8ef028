"""The loop of the calling thread."""

from __future__ import annotations

import asyncio

from erlang_loop import compat, new_event_loop


def get_event_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop, else the thread's loop, else a new ErlangEventLoop.

    Unlike asyncio's function it works in every thread and on every Python. A new loop becomes the
    thread's loop, also in place of a closed one; the caller is responsible for closing it.
    """
    loop = compat.current_loop()
    if loop is None or loop.is_closed():
        loop = new_event_loop()
        asyncio.set_event_loop(loop)
    return loop
