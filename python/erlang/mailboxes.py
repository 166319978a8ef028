"""Messages from Erlang to tasks and threads. A pid and a mailbox are created on first use."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from .errors import Error
from .native import Mailbox as NativeMailbox
from .native import Pid, Ref

if TYPE_CHECKING:
    import asyncio

    from .watching import Link

    AnyTask = asyncio.Task[Any]

#: The mailboxes of the tasks that have one.
_of_tasks: weakref.WeakKeyDictionary[AnyTask, Mailbox] = weakref.WeakKeyDictionary()


class _OfThread(threading.local):
    mailbox: Mailbox | None = None


#: Freed when its thread ends.
_of_thread = _OfThread()


class Mailbox:
    """The messages sent to the pid of a task or a thread.

    Iterate with `async for` in a task, with `for` in a thread.
    """

    __module__ = "erlang"

    def __init__(self, task: AnyTask | None = None, made: Ref | None = None) -> None:
        # Weak: the task refers to this object, and `_of_tasks` must not keep both alive.
        self._task_ref = None if task is None else weakref.ref(task)
        self._is_actor = False
        self._waiter: asyncio.Future[None] | None = None
        self._links: dict[Pid, list[Link]] = {}
        if task is None:
            self._native = NativeMailbox()
        else:
            self._native = NativeMailbox(weakref.ref(self), made)
            _of_tasks[task] = self
            task.add_done_callback(self._task_done)

    @property
    def _task(self) -> AnyTask | None:
        return None if self._task_ref is None else self._task_ref()

    @property
    def pid(self) -> Pid:
        """The process of the task or thread."""
        return self._native.pid

    def __repr__(self) -> str:
        return f"<erlang.Mailbox of {self.pid}>"

    # ---- tasks ----

    async def async_receive(self, timeout: float | None = None) -> Any:
        """Return the next message; raise `TimeoutError` if none arrives in time."""
        found = self._native.take()
        if found is not None:
            return found[0]
        task = self._task
        if task is None:
            raise RuntimeError("the mailbox of a thread: use receive()")
        if self._waiter is not None:
            raise RuntimeError("another task is already waiting for a message in this mailbox")
        loop = task.get_loop()
        timer = None
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            self._wake()

        if timeout is not None:
            if not timeout >= 0:
                raise ValueError("timeout must not be negative")
            timer = loop.call_later(timeout, expire)
        try:
            while True:
                waiter = self._waiter = loop.create_future()
                if self._native.want():
                    await waiter
                found = self._native.take()
                if found is not None:
                    return found[0]
                if expired:
                    raise TimeoutError(f"no message within {timeout} s")
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def __aiter__(self) -> Mailbox:
        return self

    async def __anext__(self) -> Any:
        return await self.async_receive()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _arrived(self) -> None:
        """Called on the loop when a message or an exit signal has arrived."""
        self._wake()
        death = self._native.take_exit()
        while death is not None:
            for link in self._links.get(death[0], ()):
                link._died(death[1])
            death = self._native.take_exit()
        task = self._task
        if self._native.ended and task is not None and not task.done():
            task.cancel(f"{self.pid} was killed")

    def _task_done(self, task: AnyTask) -> None:
        if task.cancelled():
            self._native.end(cancelled=True)
        elif self._is_actor:
            self._native.end(task.exception())
        else:
            # Not `task.exception()`: that would mark the exception as retrieved.
            self._native.end(getattr(task, "_exception", None))

    # ---- threads ----

    def receive(self, timeout: float | None = None) -> Any:
        """Return the next message. The thread waits without the GIL.

        Raises `TimeoutError` if none arrives within `timeout` seconds, and `erlang.Error` if the
        process was killed.
        """
        if self._task_ref is not None:
            raise RuntimeError("the mailbox of a task: use `await async_receive()`")
        while True:
            found = self._native.take()
            if found is not None:
                return found[0]
            if self._native.ended:
                if _of_thread.mailbox is self:
                    # The next call creates a new process.
                    _of_thread.mailbox = None
                raise Error("exit", "noproc", None, f"{self.pid} was killed")
            if not self._native.wait(timeout):
                raise TimeoutError(f"no message within {timeout} s")

    def __iter__(self) -> Mailbox:
        return self

    def __next__(self) -> Any:
        return self.receive()


def mailbox() -> Mailbox:
    """Return the mailbox of the current task, or of the thread if no loop is running in it."""
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if loop is None:
        found = _of_thread.mailbox
        if found is None:
            found = _of_thread.mailbox = Mailbox()
        return found
    assert asyncio is not None
    task = asyncio.current_task(loop)
    if task is None:
        raise RuntimeError("a callback of a loop has no pid: only tasks and threads have one")
    return _of_task(task)


def _of_task(task: AnyTask) -> Mailbox:
    found = _of_tasks.get(task)
    return Mailbox(task) if found is None else found


def _call_ended() -> None:
    """The function that Erlang called on this thread has ended, and with it its pid."""
    _of_thread.mailbox = None


def self() -> Pid:
    """Return the pid of the current task, or of the thread if no loop is running in it.

    The first call starts the process. It ends when the task or thread does; if it is killed, the
    task is cancelled.
    """
    return mailbox().pid


def receive(timeout: float | None = None) -> Any:
    """Return the next message to the current thread: `mailbox().receive()`."""
    return mailbox().receive(timeout)


async def async_receive(timeout: float | None = None) -> Any:
    """Return the next message to the current task: `mailbox().async_receive()`."""
    return await mailbox().async_receive(timeout)
