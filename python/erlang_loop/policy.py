"""The event loop policy, for programs that choose their loop that way.

Python 3.14 deprecates policies and 3.16 drops them: `loop_factory` is the way to choose a loop.
"""

from __future__ import annotations

import asyncio

from .loop import ErlangEventLoop
from .running import new_event_loop


class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes every new event loop an ErlangEventLoop."""

    def _loop_factory(self) -> ErlangEventLoop:
        return new_event_loop()


def get_event_loop_policy() -> EventLoopPolicy:
    """For `asyncio.set_event_loop_policy`."""
    return EventLoopPolicy()
