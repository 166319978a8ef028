"""Tasks that wait for fds.

A wait is a watch of the native loop, kept for the next wait of the same task for the same socket.
A watch for reading stays armed, because a task that reads usually reads again: then the next wait
costs no system call. If data arrives while the task is not waiting for it, the watch is paused. A
watch for writing is one-shot, because there is nearly always room.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from .. import _native
from .._native import rearm_fd

if TYPE_CHECKING:
    from ..callbacks.core import Core
    from .task import Task


#: The rest of a request without a timeout.
_ENDLESS = ((None,), ())


class Wait:
    """A task's watch of one direction of a socket."""

    __slots__ = ("armed", "core", "fd", "file", "handle", "task", "timer", "waiting", "writing")

    def __init__(self, core: Core, task: Task[Any], file: Any, fd: int, writing: bool) -> None:
        self.core = core
        self.task = task
        self.file = file
        self.fd = fd
        self.writing = writing
        self.waiting = True
        self.armed = not writing
        self.handle: _native.Handle
        self.timer: _native.TimerHandle | None = None

    def again(self, request: tuple[Any, ...]) -> bool:
        """Reuse the watch, if that is all that this request needs."""
        file = request[1]
        if file is not self.file or file.fileno() != self.fd or request[2:] not in _ENDLESS:
            return False
        # The fd may have another watch now: it was closed, and its number was reused.
        if self.armed:
            self.waiting = not self.handle.cancelled()
        else:
            writing = self.writing
            self.waiting = rearm_fd(self.core, self.fd, writing, writing, self.handle)
            self.armed = self.waiting and not writing
        return self.waiting

    def ready(self) -> None:
        if not self.waiting:
            if self.armed:
                self.armed = False
                _native.pause_fd(self.core, self.fd, self.writing, self.handle)
        else:
            self.waiting = False
            if self.timer is not None:
                self.cancel()
            task = self.task
            task._go_on(task._send, None)

    def late(self, timeout: float) -> None:
        if self.waiting:
            self.cancel()
            self.task._throw(TimeoutError(f"nothing came within {timeout} seconds"))

    def cancel(self) -> None:
        self.waiting = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _describe_handler(self) -> str:
        return self.task._describe_handler()


class Waits:
    """The waits of a loop, for reading and for writing, by fd."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waits: tuple[dict[int, Wait], dict[int, Wait]] = ({}, {})
        #: The waits to check when a task ends: fds, and whether they are for writing.
        self._of_task: dict[Task[Any], set[tuple[int, bool]]] = {}

    def read(self, task: Task[Any], file: Any, timeout: float | None = None) -> Wait:
        return self._wait(task, file, False, timeout)

    def write(self, task: Task[Any], file: Any, timeout: float | None = None) -> Wait:
        return self._wait(task, file, True, timeout)

    def _wait(self, task: Task[Any], file: Any, writing: bool, timeout: float | None) -> Wait:
        fd = file if type(file) is int else file.fileno()
        wait = self._watch(task, file, fd, writing)
        if timeout is not None:
            late, context = wait.late, task._context
            wait.timer = self._core.call_later(timeout, late, timeout, context=context)
        return wait

    def _watch(self, task: Task[Any], file: Any, fd: int, writing: bool) -> Wait:
        before = self._waits[writing].get(fd)
        if before is not None and before.waiting:
            if before.file is file:
                way = "writable" if writing else "readable"
                raise RuntimeError(f"{before.task!r} waits already for {file!r} to be {way}")
            # The old socket was closed, otherwise its number could not have been reused.
            before.cancel()
            error = OSError(errno.EBADF, "the socket was closed while the task waited for it")
            self._core.call_soon(before.task._throw, error, context=before.task._context)
        wait = Wait(self._core, task, file, fd, writing)
        context = task._context
        try:
            wait.handle = _native.watch_fd(
                self._core, fd, writing, False, writing, wait.ready, (), context
            )
        except PermissionError:
            # A regular file: always ready.
            wait.handle = self._core.call_soon(wait.ready, context=context)
            return wait
        self._waits[writing][fd] = wait
        self._of_task.setdefault(task, set()).add((fd, writing))
        if not isinstance(file, int):
            task._known["write" if writing else "read"] = wait
        return wait

    def task_ended(self, task: Task[Any]) -> None:
        for fd, writing in self._of_task.pop(task, ()):
            wait = self._waits[writing].get(fd)
            if wait is not None and wait.task is task:
                self._drop(fd, writing)

    def forget(self, file: Any) -> list[Task[Any]]:
        """End the waits for a file that is about to be closed; return the tasks that waited."""
        waiting = []
        for writing in (False, True):
            of_file = [fd for fd, wait in self._waits[writing].items() if wait.file is file]
            for fd in of_file:
                wait = self._waits[writing][fd]
                if wait.waiting:
                    waiting.append(wait.task)
                self._drop(fd, writing)
        return waiting

    def _drop(self, fd: int, writing: bool) -> None:
        wait = self._waits[writing].pop(fd)
        wait.cancel()
        if self._core._fd_handles(fd)[writing] is wait.handle:
            remove = self._core._remove_writer if writing else self._core._remove_reader
            remove(fd)
