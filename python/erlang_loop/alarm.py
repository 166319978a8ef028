"""Where Python's own C handler writes the number of each signal, under `bin/erlang-loop`.

One pipe for all loops, and never closed: Python goes on writing to the file it was told of, also
when the loop that told it is gone and the file's number is somebody else's.
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
    """The pipe, and the loops that are told what arrives in it."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._listeners: weakref.WeakSet[SignalHandlers] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._forked)

    def take_over(self) -> int:
        """Python writes here from now on. Answers where it wrote before.

        ValueError in any other thread than the main one.
        """
        return signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def give_back(self, before: int) -> None:
        """As before `take_over`; unless somebody listens, or took over from us meanwhile."""
        if self._listeners:
            return
        if before == self._write_end:
            # Somebody listened then.
            before = -1
        try:
            now = signal.set_wakeup_fd(before)
        except (ValueError, OSError):
            # Whoever had it has closed it.
            now = signal.set_wakeup_fd(-1)
        if now not in (self._write_end, before):
            signal.set_wakeup_fd(now)

    def listeners(self) -> list[SignalHandlers]:
        return list(self._listeners)

    def listen(self, loop: SignalHandlers) -> None:
        if not self._listeners:
            # Of signals that nobody was there for.
            self._take()
        self.take_over()
        self._listeners.add(loop)

    def listen_no_longer(self, loop: SignalHandlers) -> None:
        self._listeners.discard(loop)
        # A loop that runs still wants to be woken, and gives back when it is done.
        if asyncio._get_running_loop() is None:
            self.give_back(-1)

    def read(self) -> None:
        """A loop was woken by the pipe. Handlers set with `signal.signal` run in Python's own time;
        those of loops are called from here."""
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
        """A copy of the process has signals of its own, and the same numbers for its files."""
        ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for fresh, known in zip(ends, (self.read_end, self._write_end)):
            os.dup2(fresh, known, inheritable=False)
            os.close(fresh)
