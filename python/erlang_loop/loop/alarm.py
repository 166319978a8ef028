"""The wakeup fd: under `bin/erlang-loop`, Python's C signal handler writes signal numbers to it.

One pipe for all loops, never closed: Python keeps writing to the fd it was given, also when the
loop that set it is closed and the fd's number belongs to another file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .signals import SignalHandlers


class Alarm:
    """The pipe, and the loops that read from it."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._listeners: weakref.WeakSet[SignalHandlers] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._forked)

    def take_over(self) -> int:
        """Make this pipe Python's wakeup fd. Returns the previous one.

        Raises ValueError in any thread but the main thread.
        """
        return signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def give_back(self, before: int) -> None:
        """Restore the previous wakeup fd, unless a loop listens or other code has set one."""
        if self._listeners:
            return
        if before == self._write_end:
            # A loop was listening at that time.
            before = -1
        try:
            now = signal.set_wakeup_fd(before)
        except (ValueError, OSError):
            # The previous fd has been closed.
            now = signal.set_wakeup_fd(-1)
        if now not in (self._write_end, before):
            signal.set_wakeup_fd(now)

    def listeners(self) -> list[SignalHandlers]:
        return list(self._listeners)

    def listen(self, loop: SignalHandlers) -> None:
        if not self._listeners:
            # Signals that arrived while no loop was listening.
            self._take()
        self.take_over()
        self._listeners.add(loop)

    def listen_no_longer(self, loop: SignalHandlers) -> None:
        self._listeners.discard(loop)
        # A running loop still needs the wakeup fd, and restores it when it stops.
        if asyncio._get_running_loop() is None:
            self.give_back(-1)

    def read(self) -> None:
        """A loop was woken by the pipe. This calls the handlers of loops; Python calls those set
        with `signal.signal`."""
        numbers = self._take()
        if not numbers:
            return
        running = asyncio._get_running_loop()
        for loop in self.listeners():
            for number in numbers:
                if loop is running:
                    loop._handle_signal(number)
                else:
                    loop.call_soon_threadsafe(loop._handle_signal, number)

    def _take(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return os.read(self.read_end, 4096)
        return b""

    def _forked(self) -> None:
        """A forked copy needs its own pipe: replace both ends, with the same numbers."""
        ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for fresh, known in zip(ends, (self.read_end, self._write_end)):
            os.dup2(fresh, known, inheritable=False)
            os.close(fresh)
