"""Tasks that wait for fds.

A wait is a one-shot watch of the native loop, kept for the next wait of the same task for the same
socket: asking for one more event is then one system call, and nothing is made anew.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _native

if TYPE_CHECKING:
    from ..callbacks.core import Core
    from .task import Task

Key = tuple[int, bool]
Leave = Callable[[], object]


class _Wait:
    """A task's watch of one direction of a socket."""

    __slots__ = ("file", "handle", "task", "timer", "waiting")

    def __init__(self, task: Task[Any], file: Any) -> None:
        self.task = task
        self.file = file
        self.waiting = True
        self.handle: _native.Handle
        self.timer: _native.TimerHandle | None = None

    def ready(self) -> None:
        if self.waiting:
            self.leave()
            self.task._resume()

    def late(self, timeout: float) -> None:
        if self.waiting:
            self.leave()
            self.task._throw(TimeoutError(f"nothing came within {timeout} seconds"))

    def leave(self) -> None:
        self.waiting = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _describe_handler(self) -> str:
        return self.task._describe_handler()


class Waits:
    """The waits of a loop, by fd and whether they are for writing."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waits: dict[Key, _Wait] = {}
        #: What to look through when a task ends.
        self._of_task: dict[Task[Any], set[Key]] = {}

    def read(self, task: Task[Any], file: Any, timeout: float | None = None) -> Leave:
        return self._wait(task, file, False, timeout)

    def write(self, task: Task[Any], file: Any, timeout: float | None = None) -> Leave:
        return self._wait(task, file, True, timeout)

    def _wait(self, task: Task[Any], file: Any, writing: bool, timeout: float | None) -> Leave:
        fd = file if isinstance(file, int) else file.fileno()
        key = (fd, writing)
        wait = self._waits.get(key)
        if (
            wait is not None
            and wait.task is task
            and wait.file is file
            and _native.rearm_fd(self._core, fd, writing, wait.handle)
        ):
            wait.waiting = True
        else:
            wait = self._watch(task, file, key)
        if timeout is not None:
            late, context = wait.late, task._context
            wait.timer = self._core.call_later(timeout, late, timeout, context=context)
        return wait.leave

    def _watch(self, task: Task[Any], file: Any, key: Key) -> _Wait:
        before = self._waits.get(key)
        if before is not None and before.waiting:
            if before.file is file:
                way = "writable" if key[1] else "readable"
                raise RuntimeError(f"{before.task!r} waits already for {file!r} to be {way}")
            # Its socket was closed, or the number would not be this one's.
            before.leave()
            error = OSError(errno.EBADF, "the socket was closed while the task waited for it")
            self._core.call_soon(before.task._throw, error, context=before.task._context)
        wait = _Wait(task, file)
        fd, writing = key
        try:
            wait.handle = _native.watch_fd(
                self._core, fd, writing, False, True, wait.ready, (), task._context
            )
        except PermissionError:
            # A file on disk: always ready.
            handle = self._core.call_soon(wait.ready, context=task._context)
            wait.handle = handle
            return wait
        self._waits[key] = wait
        self._of_task.setdefault(task, set()).add(key)
        return wait

    def task_ended(self, task: Task[Any]) -> None:
        for key in self._of_task.pop(task, ()):
            wait = self._waits.get(key)
            if wait is not None and wait.task is task:
                self._drop(key)

    def forget(self, file: Any) -> list[Task[Any]]:
        """Ends the waits for a file that will be closed; answers the tasks that waited."""
        keys = [key for key, wait in self._waits.items() if wait.file is file]
        waiting = [self._waits[key].task for key in keys if self._waits[key].waiting]
        for key in keys:
            self._drop(key)
        return waiting

    def _drop(self, key: Key) -> None:
        wait = self._waits.pop(key)
        wait.leave()
        fd, writing = key
        known = self._core._fd_handles(fd)[writing]
        if known is wait.handle:
            remove = self._core._remove_writer if writing else self._core._remove_reader
            remove(fd)
