"""What interrupts Python code: exceptions that another thread raises inside of a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .native import _protect, _resume


class Interrupt(BaseException):
    """Raised inside of a call by another thread.

    Not an `Exception`, so that code which catches everything and tries again is left too.
    """


class Interrupted(Interrupt):
    """The caller of this plain function timed out, cancelled or died: no process waits for it."""

    __module__ = "erlang"


@contextmanager
def uninterruptible() -> Iterator[None]:
    """Protect the code of a `with` statement, or a function, from `Interrupted`.

    An interrupt that comes meanwhile is raised at its end. Can be nested. No effect on coroutines,
    which are cancelled at their `await`. The protection of a generator ends at its `yield`.
    """
    number = _protect()
    try:
        yield
    finally:
        _resume(number)


def nothing() -> None:
    """Called by a thread whose call has ended: an Interrupt that came too late is raised here."""
