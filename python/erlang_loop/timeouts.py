"""`asyncio.timeout` for Python 3.9 and 3.10, which lack it. `compat` chooses."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import final


@final
class Timeout:
    """An asynchronous context manager that cancels what runs inside it when its time is over.

    Use `timeout()`. As asyncio's class of this name, within the limits of these Pythons: a task
    does not count how often it was cancelled. If somebody cancels the task in the very moment that
    the time is over, TimeoutError is what comes out.
    """

    def __init__(self, when: float | None) -> None:
        self._when = when
        self._state = "created"
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.Handle | None = None

    def when(self) -> float | None:
        """The deadline, in the loop's time."""
        return self._when

    def reschedule(self, when: float | None) -> None:
        """Another deadline, or none."""
        if self._state != "active":
            raise RuntimeError(f"Cannot change state of {self._state} Timeout")
        self._when = when
        self._drop_timer()
        if when is not None:
            loop = asyncio.get_running_loop()
            if when <= loop.time():
                self._timer = loop.call_soon(self._expire)
            else:
                self._timer = loop.call_at(when, self._expire)

    def expired(self) -> bool:
        """Whether the time was over before the block was."""
        return self._state in ("expiring", "expired")

    def __repr__(self) -> str:
        info = ""
        if self._state == "active":
            info = f" when={None if self._when is None else round(self._when, 3)}"
        return f"<Timeout [{self._state}]{info}>"

    def _expire(self) -> None:
        assert self._task is not None
        self._timer = None
        self._state = "expiring"
        self._task.cancel()

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def __aenter__(self) -> Timeout:
        if self._state != "created":
            raise RuntimeError("Timeout has already been entered")
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self._state = "active"
        self.reschedule(self._when)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._drop_timer()
        if self._state == "expiring":
            self._state = "expired"
            if kind is not None and issubclass(kind, asyncio.CancelledError):
                raise asyncio.TimeoutError from error
        else:
            self._state = "finished"


def timeout(delay: float | None) -> Timeout:
    """After `delay` seconds the block is cancelled and raises TimeoutError; None: never."""
    loop = asyncio.get_running_loop()
    return Timeout(None if delay is None else loop.time() + delay)
