"""What `py_watchdog` raises in a callback that blocks its loop, if it is told to interrupt."""

from __future__ import annotations

__all__ = ["LoopStuckError"]


class LoopStuckError(BaseException):
    """Raised inside of a callback that has blocked its loop for too long.

    Not an `Exception`, so that code which catches everything and tries again is left too.
    """
