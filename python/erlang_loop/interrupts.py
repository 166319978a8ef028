"""What the native `interrupt` raises in a call that takes too long."""

from __future__ import annotations


class Interrupt(BaseException):
    """Raised inside of a call by another thread.

    Not an `Exception`, so that code which catches everything and tries again is left too.
    """


def nothing() -> None:
    """Called by a thread whose call has ended: an Interrupt that came too late is raised here."""
