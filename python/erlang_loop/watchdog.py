"""The exception that `py_watchdog` raises in a stuck callback if the policy is `interrupt`."""

from __future__ import annotations

from erlang.interrupts import Interrupt

__all__ = ["LoopStuckError"]


class LoopStuckError(Interrupt):
    """Raised inside a callback that has blocked its loop for too long."""
