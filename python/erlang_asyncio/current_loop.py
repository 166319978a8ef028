"""The loop of the calling thread."""

from __future__ import annotations

import asyncio

from erlang_loop import compat, new_event_loop


def get_event_loop() -> asyncio.AbstractEventLoop:
    """The running loop, else the one set for this thread, else a new ErlangEventLoop.

    Unlike asyncio's function it works in every thread and on every Python: a new loop is set as
    the thread's, also in place of one that is closed. Whoever made it by calling this closes it.
    """
    loop = compat.current_loop()
    if loop is None or loop.is_closed():
        loop = new_event_loop()
        asyncio.set_event_loop(loop)
    return loop
