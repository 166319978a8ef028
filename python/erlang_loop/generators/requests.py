"""What a task may yield, and the helpers that do: use them with `yield from`.

A request is a tuple, its first part a word: `("read", sock, timeout)`, `("write", sock, timeout)`,
`("sleep", seconds)`, `("join", task)`, `("pool", function, args)`. The time-out may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    from .task import Task

    _Ts = TypeVarTuple("_Ts")

T = TypeVar("T")
Request = tuple[Any, ...]
#: What a task runs.
Steps = Generator[Request, Any, T]


def await_read(sock: Any, timeout: float | None = None) -> Steps[None]:
    """Wait until it can be read; TimeoutError after `timeout` seconds.

    OSError (EBADF) if it is closed meanwhile with `loop.close_socket`.
    """
    yield ("read", sock, timeout)


def await_write(sock: Any, timeout: float | None = None) -> Steps[None]:
    """As `await_read`, until it can be written."""
    yield ("write", sock, timeout)


def sleep(seconds: float) -> Steps[None]:
    """Wait, never shorter."""
    yield ("sleep", seconds)


def join(task: Task[T]) -> Steps[T]:
    """Wait for another task and answer what it returned; its exception is raised here too."""
    return (yield ("join", task))  # type: ignore[no-any-return]


def in_pool(function: Callable[[Unpack[_Ts]], T], *args: Unpack[_Ts]) -> Steps[T]:
    """Run what would block in a thread, and wait for its answer."""
    return (yield ("pool", function, args))  # type: ignore[no-any-return]
