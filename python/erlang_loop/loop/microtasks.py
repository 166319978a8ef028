"""Microtasks: callbacks that run right after the one that queued them, before any other.

`queue_microtask` itself is native (native/py_nif/src/asyncio/turn/priorities.rs).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from .. import _native
from .asyncio_private import AsyncioLoop

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")


class Microtasks(AsyncioLoop):
    """The part of ErlangEventLoop that has microtasks."""

    if TYPE_CHECKING:

        def queue_microtask(
            self,
            callback: Callable[[Unpack[_Ts]], object],
            *args: *_Ts,
            context: Context | None = None,
        ) -> _native.Handle: ...

    def next_tick(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _native.Handle:
        """Another name for `queue_microtask`: there is one queue, in the order of the calls."""
        return self.queue_microtask(callback, *args, context=context)

    def set_microtask_limit(self, limit: int) -> None:
        """Set how many more microtasks those of one callback may queue; 100,000 by default.

        One more raises RuntimeError where it is queued: a microtask that queues itself forever
        would block the loop.
        """
        if limit < 1:
            raise ValueError("the limit must be at least 1")
        _native.set_microtask_limit(self, limit)
