"""A loop that a plain function runs on a call thread ends when that function is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erlang import Interrupted

from .._native import _on_interrupt, _protect, _resume

if TYPE_CHECKING:
    from .event_loop import ErlangEventLoop


class Interruptible:
    """One run of a loop. On other threads than those it has no effect.

    The exception may be raised in the step of a task, which keeps it, or find the loop asleep. So a
    callback is posted that raises it in the loop itself.
    """

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._loop = loop
        self._runs = True
        self._before = _on_interrupt(self._interrupted)

    def _interrupted(self) -> None:
        # On the thread that interrupts.
        if self._runs:
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        number = _protect()
        if number == 0:
            # In `erlang.uninterruptible()`: raised at its end.
            return
        _resume(number)
        # If the main task has kept the exception, the loop stops by itself in this turn.
        self._loop.call_soon(self._raise)

    def _raise(self) -> None:
        if self._runs:
            raise Interrupted

    def end(self) -> None:
        self._runs = False
        _on_interrupt(self._before)
