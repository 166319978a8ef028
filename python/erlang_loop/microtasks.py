"""Microtasks: callbacks that run right after the one that queued them, before any other.

`queue_microtask` itself is native (native/py_nif/src/python/between.rs).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from . import _native
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
            *args: Unpack[_Ts],
            context: Context | None = None,
        ) -> _native.Handle: ...

    def next_tick(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        context: Context | None = None,
    ) -> _native.Handle:
        """Another name of `queue_microtask`: there is one queue, in the order of the calls."""
        return self.queue_microtask(callback, *args, context=context)

    def set_microtask_limit(self, limit: int) -> None:
        """Set how many microtasks those of one callback may queue; 100,000 unless set.

        One more is a RuntimeError where it is queued: a microtask that queues itself for ever
        would keep the loop from everything else.
        """
        if limit < 1:
            raise ValueError("the limit must be at least 1")
        _native.set_microtask_limit(self, limit)
