"""The requests that a task may yield, and helpers that yield them: use those with `yield from`.

A request is a tuple: `("read", sock, timeout)`, `("write", sock, timeout)`, `("sleep", seconds)`,
`("join", task)`, `("pool", function, args)`. The timeout is optional. `READ` and `WRITE` may be
used instead of the first two words.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    from .task import Task

    _Ts = TypeVarTuple("_Ts")

T = TypeVar("T")
Request = tuple[Any, ...]
#: May be used instead of "read" and "write".
READ: Final = 1
WRITE: Final = 2
#: The generators that tasks run.
Steps = Generator[Request, Any, T]


def await_read(sock: Any, timeout: float | None = None) -> Steps[None]:
    """Wait until the socket is readable; raise TimeoutError after `timeout` seconds.

    Raises OSError (EBADF) if the socket is closed meanwhile with `loop.close_socket`.
    """
    yield ("read", sock, timeout)


def await_write(sock: Any, timeout: float | None = None) -> Steps[None]:
    """Like `await_read`, until the socket is writable."""
    yield ("write", sock, timeout)


def sleep(seconds: float) -> Steps[None]:
    """Wait for at least `seconds`."""
    yield ("sleep", seconds)


def join(task: Task[T]) -> Steps[T]:
    """Wait for another task and return its value; an exception of it is raised here, too."""
    return (yield ("join", task))  # type: ignore[no-any-return]


def in_pool(function: Callable[[Unpack[_Ts]], T], *args: *_Ts) -> Steps[T]:
    """Run a blocking function in a thread and return its value."""
    return (yield ("pool", function, args))  # type: ignore[no-any-return]
