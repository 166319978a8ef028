"""GeneratorLoop: a CallbackLoop whose callbacks are steps of generators."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..callbacks import CallbackLoop
from ..placeholders import named
from .requests import READ, WRITE, Steps
from .task import Cancellable, Task, TaskCancelledError
from .waits import Waits

if TYPE_CHECKING:
    from ..callbacks import PoolCall

T = TypeVar("T")

#: No failures of the task: it was cancelled, or wanted the program to end, which it does.
_EXPECTED = (TaskCancelledError, SystemExit, KeyboardInterrupt)


class _Joining:
    """A task that waits for another's end."""

    def __init__(self, joined: Task[Any], task: Task[Any]) -> None:
        self._joined = joined
        self._task = task

    def cancel(self) -> None:
        if self._task in self._joined._joining:
            self._joined._joining.remove(self._task)


class GeneratorLoop(CallbackLoop):
    """Runs tasks that are generators. It can do all that a CallbackLoop can, too."""

    def __init__(
        self,
        *,
        isolated: bool = False,
        spin: float | None = None,
        direct_wait: float | None = None,
        pool_size: int | None = None,
    ) -> None:
        super().__init__(isolated=isolated, spin=spin, direct_wait=direct_wait, pool_size=pool_size)
        self._tasks: set[Task[Any]] = set()
        self._waits = Waits(self._core)
        self._requests: dict[str | int, Callable[..., Cancellable]] = {
            "read": self._waits.read,
            READ: self._waits.read,
            "write": self._waits.write,
            WRITE: self._waits.write,
            "sleep": self._sleep,
            "join": self._join,
            "pool": self._run_in_pool,
        }

    def create_task(self, generator: Steps[T], *, name: str | None = None) -> Task[T]:
        """Run a generator as a task, from the next turn of the loop on."""
        task = Task(self, generator, name)
        self._core.call_soon(task._resume, context=task._context)
        self._tasks.add(task)
        return task

    def all_tasks(self) -> set[Task[Any]]:
        """The tasks that have not ended."""
        return set(self._tasks)

    def close_socket(self, sock: Any) -> None:
        """Close it, and have tasks that wait for it go on with an OSError (EBADF)."""
        error = OSError(errno.EBADF, os.strerror(errno.EBADF))
        waiting = self._waits.forget(sock)
        self.remove_fd(sock)
        sock.close()
        for task in waiting:
            task._let_go()
            self._core.call_soon(task._throw, error, context=task._context)

    def run_until_complete(self, generator: Steps[T]) -> T:
        """Run the loop until a task ends; return the task's result."""
        self._core._check_closed()
        task = self.create_task(generator)
        watcher = self.create_task(self._stop_after(task))
        try:
            self.run_forever()
        finally:
            watcher.cancel()
        return task.result()

    def _stop_after(self, task: Task[Any]) -> Steps[None]:
        # What it raised is raised by run_until_complete.
        with contextlib.suppress(Exception):
            yield ("join", task)
        self.stop()

    def shutdown(self, *, patience: float = 5.0) -> list[PoolCall]:
        """As CallbackLoop's, after all tasks were cancelled: their `finally` blocks run first."""
        self._end_tasks()
        return super().shutdown(patience=patience)

    def close(self) -> None:
        """As CallbackLoop's, after all tasks were cancelled."""
        self._end_tasks()
        super().close()

    def _end_tasks(self) -> None:
        if self.is_closed() or self.is_running():
            return
        for task in self.all_tasks():
            task._let_go()
            task._cancelled = True
            task._context.run(task._close)

    # Called by tasks.

    def _grant(self, task: Task[Any], request: Any) -> Cancellable:
        """Sees to it that the task goes on when what it asked for has come."""
        grant = self._requests.get(request[0]) if type(request) is tuple and request else None
        if grant is None:
            raise TypeError(f"a task cannot wait for {request!r}: see erlang_loop.generators")
        return grant(task, *request[1:])

    def _ended(self, task: Task[Any], told: bool) -> None:
        self._tasks.discard(task)
        self._waits.task_ended(task)
        error = task._error
        if error is None or told or isinstance(error, _EXPECTED):
            return
        self.call_exception_handler(
            {
                "message": f"Exception in {named(Task._describe_handler, task)}",
                "exception": error,
                "task": task,
            }
        )

    def _sleep(self, task: Task[Any], seconds: float) -> Cancellable:
        return self._core.call_later(seconds, task._resume, context=task._context)

    def _join(self, task: Task[Any], other: Task[Any]) -> Cancellable:
        if not isinstance(other, Task):
            raise TypeError(f"a task can be joined, not {other!r}")
        if other is task:
            raise RuntimeError("a task cannot wait for itself")
        if other.done():
            return self._core.call_soon(task._joined, other, context=task._context)
        other._joining.append(task)
        return _Joining(other, task)

    def _run_in_pool(self, task: Task[Any], function: Any, args: tuple[Any, ...]) -> Cancellable:
        def go_on(step: Callable[[Any], None], value: Any) -> None:
            self._core.call_soon(step, value, context=task._context)

        return self.run_in_pool(
            function,
            *args,
            callback=partial(go_on, task._resume),
            on_error=partial(go_on, task._throw),
        )
