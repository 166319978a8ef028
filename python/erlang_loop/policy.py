"""The event loop policy, for programs that choose their loop that way.

Python 3.14 deprecates policies and 3.16 drops them: `loop_factory` is the way to choose a loop.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from .loop import ErlangEventLoop
from .running import new_event_loop

if TYPE_CHECKING or sys.version_info < (3, 14):
    _DefaultPolicy = asyncio.DefaultEventLoopPolicy
else:
    # Using its public name would warn, although the program may not use a policy at all.
    from asyncio.unix_events import _DefaultEventLoopPolicy as _DefaultPolicy


class EventLoopPolicy(_DefaultPolicy):
    """Makes every new event loop an ErlangEventLoop."""

    def _loop_factory(self) -> ErlangEventLoop:
        return new_event_loop()


def get_event_loop_policy() -> EventLoopPolicy:
    """For `asyncio.set_event_loop_policy`."""
    return EventLoopPolicy()
