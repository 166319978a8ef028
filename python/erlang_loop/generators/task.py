"""A task: a generator, and what it waits for."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..loop.blocking import place
from .requests import Steps

if TYPE_CHECKING:
    from .loop import GeneratorLoop
    from .waits import Wait

T = TypeVar("T")

_numbers = itertools.count(1)


class Cancellable(Protocol):
    """An object that a task can wait for."""

    def cancel(self) -> object: ...


class TaskCancelledError(Exception):
    """The joined task was cancelled."""


class Task(Generic[T]):
    """A task, as returned by `create_task`. It ends when its generator returns or is cancelled."""

    def __init__(self, loop: GeneratorLoop, generator: Steps[T], name: str | None) -> None:
        if not hasattr(generator, "send") or not hasattr(generator, "throw"):
            raise TypeError(f"a generator was expected, got {generator!r}")
        self.name = name or f"Task-{next(_numbers)}"
        self._loop = loop
        self._generator = generator
        self._context = contextvars.copy_context()
        self._running = False
        self._done = False
        self._cancelled = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._joining: list[Task[Any]] = []
        self._send = generator.send
        #: Its last waits for reading and for writing, by the first element of the request.
        self._known: dict[str, Wait] = {}
        #: What it waits for; None while it runs or is about to run.
        self._waits_for: Cancellable | None = None

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return self._cancelled

    def result(self) -> T:
        """Return what the generator returned, or raise what it raised."""
        if not self._done:
            raise RuntimeError(f"{self!r} has not ended")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def cancel(self) -> bool:
        """End the generator at its `yield`; `finally` blocks run. False if it has already ended."""
        if self._done:
            return False
        self._cancelled = True
        if not self._running:
            self._let_go()
            self._loop.asyncio_loop.call_soon(self._close, context=self._context)
        return True

    # Called by the loop.

    def _resume(self, value: Any = None) -> None:
        """Run to the next request and pass it to the loop."""
        self._go_on(self._send, value)

    def _throw(self, error: BaseException) -> None:
        self._go_on(self._generator.throw, error)

    def _go_on(self, step: Callable[[Any], Any], value: Any) -> None:
        if self._done:
            return
        self._waits_for = None
        self._running = True
        try:
            request = step(value)
        except BaseException as error:
            self._running = False
            self._stopped(error)
            return
        self._running = False
        if self._cancelled:
            # By the generator itself or by code it called.
            self._close()
            return
        try:
            # Usually it waits for the same fd as before.
            wait = self._known.get(request[0]) if type(request) is tuple and request else None
            if wait is not None and wait.again(request):
                self._waits_for = wait
            else:
                self._waits_for = self._loop._grant(self, request)
        except Exception as error:
            # The request was invalid: the exception is raised at the `yield`.
            self._loop.asyncio_loop.call_soon(self._throw, error, context=self._context)

    def _stopped(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):
            self._end(error.value, None)
            return
        self._end(None, error)
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise error

    def _close(self) -> None:
        if self._done:
            return
        try:
            self._generator.close()
        except BaseException as error:
            self._stopped(error)
        else:
            self._end(None, TaskCancelledError(f"{self.name} was cancelled"))

    def _end(self, result: Any, error: BaseException | None) -> None:
        self._done = True
        self._result, self._error = result, error
        waiting, self._joining = self._joining, []
        self._loop._ended(self, told=bool(waiting))
        for other in waiting:
            self._loop.asyncio_loop.call_soon(other._joined, self, context=other._context)

    def _joined(self, other: Task[Any]) -> None:
        if other._error is not None:
            self._throw(other._error)
        else:
            self._resume(other._result)

    def _let_go(self) -> None:
        waits_for, self._waits_for = self._waits_for, None
        if waits_for is not None:
            waits_for.cancel()

    def _describe_handler(self) -> str:
        name = getattr(self._generator, "__qualname__", repr(self._generator))
        return f"{name}() of {self.name}{place(self._generator, 'gi')}"

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "done" if self._done else "pending"
        return f"<Task {self.name} {state}: {self._describe_handler()}>"
