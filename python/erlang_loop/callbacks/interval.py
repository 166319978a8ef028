"""`set_interval`: a callback that is called repeatedly."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..loop.blocking import describe

if TYPE_CHECKING:
    from .. import _native
    from .core import Core


class Interval:
    """The handle returned by `set_interval`. Ticks are a period apart, however long they take.

    A tick that is due while the previous one still runs is skipped: ticks never pile up.
    """

    def __init__(
        self, core: Core, period: float, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        if not 0 < period < math.inf:
            raise ValueError(f"the period must be a positive number of seconds, not {period!r}")
        self._core = core
        self._period = period
        self._callback = callback
        self._args = args
        # One context for all ticks, as for all events of an fd.
        self._context = contextvars.copy_context()
        self._begun = core.time()
        self._ticks = 0
        self._timer: _native.TimerHandle | None = None
        self._schedule()

    def cancel(self) -> None:
        """Stop the ticks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cancelled(self) -> bool:
        return self._timer is None

    def _schedule(self) -> None:
        # Computed from the start time, so that rounding errors do not accumulate.
        gone = (self._core.time() - self._begun) / self._period
        self._ticks = max(self._ticks, math.floor(gone)) + 1
        when = self._begun + self._ticks * self._period
        self._timer = self._core.call_at(when, self._tick, context=self._context)

    def _tick(self) -> None:
        # Scheduled first, so that an exception in the callback does not stop the interval.
        self._schedule()
        self._callback(*self._args)

    def _describe_handler(self) -> str:
        return describe(self._callback)

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else f"every {self._period} s"
        return f"<Interval {state}: {describe(self._callback)}>"
