"""`loop.add_signal_handler`: signals reach a loop through the Erlang VM, to which they belong.

Python's own way (a C handler that writes to a file) is used for one thing only: under
`bin/erlang-loop`, where the process is Python's, it has Ctrl-C end the sleep of the main thread's
loop, and brings the signals that Erlang does not handle.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native, compat
from .asyncio_private import AsyncioLoop

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")

#: True in a process of `bin/erlang-loop`.
RUNS_COMMAND = _native.runs_command()


class _Alarm:
    """The pipe that Python's C handler writes to while a loop runs that handles no signals itself.

    It only ends the loop's sleep. So there is one for all loops, and a loop that never sleeps
    need not watch it.
    """

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.read_end, 4096)

    def forked(self) -> None:
        """A copy of the process has signals of its own."""
        for end in (self.read_end, self.write_end):
            os.close(end)
        self.open()


if RUNS_COMMAND:
    ALARM = _Alarm()
    os.register_at_fork(after_in_child=ALARM.forked)


class _Handler(NamedTuple):
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    #: The VM reports the signal; else Python's C handler does.
    by_erlang: bool


class SignalHandlers(AsyncioLoop):
    """The signal methods of ErlangEventLoop.

    They work as asyncio's, and also in loops of other threads than the main one. Several loops
    may handle the same signal: each is told.
    """

    #: Where Python's C handler writes the number of each signal, for a loop that handles some:
    #: (read end, write end).
    _signal_pipe: tuple[int, int] | None = None
    _watches_alarm = False
    _signal_handlers: dict[int, _Handler]

    def add_signal_handler(
        self, sig: int, callback: Callable[[Unpack[_Ts]], object], *args: Unpack[_Ts]
    ) -> None:
        """Call `callback(*args)` in the loop whenever the signal arrives.

        RuntimeError if the signal cannot be caught, or if the VM keeps it for itself: SIGINT in a
        node that was not started by `bin/erlang-loop`.
        """
        if asyncio.iscoroutine(callback) or compat.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        self._check_signal(sig)
        self._check_closed()
        if sig in (signal.SIGKILL, signal.SIGSTOP):
            raise RuntimeError(f"sig {sig} cannot be caught")
        known = self._signal_handlers.get(sig)
        by_erlang = known.by_erlang if known else self._take_signal(sig)
        context = contextvars.copy_context()
        self._signal_handlers[sig] = _Handler(callback, args, context, by_erlang)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove a handler; False if there was none. The signal then does what it did before."""
        self._check_signal(sig)
        handler = self._signal_handlers.pop(sig, None)
        if handler is None:
            return False
        if handler.by_erlang:
            _native.signal_watch(self, sig, False)
        else:
            default = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
            signal.signal(sig, default)
            if not self._has_python_signals() and not self.is_running():
                signal.set_wakeup_fd(-1)
        return True

    def _handle_signal(self, sig: int) -> None:
        """A signal arrived. Called by the native turn, or for what Python's handler wrote."""
        handler = self._signal_handlers.get(sig)
        if handler is not None:
            self.call_soon(handler.callback, *handler.args, context=handler.context)

    def _take_signal(self, sig: int) -> bool:
        """Has the signal come here; True if Erlang brings it."""
        if _native.signal_watch(self, sig, True):
            return True
        name = signal.Signals(sig).name if sig in set(signal.Signals) else f"signal {sig}"
        if not RUNS_COMMAND:
            raise RuntimeError(
                f"{name} belongs to the Erlang VM, which does not give it to Python: "
                "run the program with bin/erlang-loop"
            )
        try:
            signal.set_wakeup_fd(self._open_signal_pipe(), warn_on_full_buffer=False)
            signal.signal(sig, _nothing)
            # System calls of other code go on instead of failing with EINTR.
            signal.siginterrupt(sig, False)
        except ValueError as error:
            # Not the main thread.
            raise RuntimeError(str(error)) from None
        except OSError:
            raise RuntimeError(f"sig {sig} cannot be caught") from None
        return False

    def _has_python_signals(self) -> bool:
        return any(not handler.by_erlang for handler in self._signal_handlers.values())

    # Python's C handler

    def _listen_to_python(self) -> int | None:
        """While the loop runs: what Python's handler takes ends the loop's sleep.

        Answers what `_stop_listening` has to restore, None if there is nothing.
        """
        if not RUNS_COMMAND or threading.get_ident() != threading.main_thread().ident:
            return None
        if self._signal_pipe is None:
            if not self._watches_alarm:
                self._call_before_sleep()
            return signal.set_wakeup_fd(ALARM.write_end, warn_on_full_buffer=False)
        return signal.set_wakeup_fd(self._signal_pipe[1], warn_on_full_buffer=False)

    def _before_sleep(self) -> None:
        """Called by the native turn."""
        # No fd may be left to watch it with: then a signal is taken with the next turn.
        with contextlib.suppress(OSError):
            self._add_reader(ALARM.read_end, ALARM.drain)
            self._watches_alarm = True

    def _stop_listening(self, before: int | None) -> None:
        if before is not None and not (self._signal_handlers and self._has_python_signals()):
            signal.set_wakeup_fd(before)

    def _open_signal_pipe(self) -> int:
        if self._signal_pipe is None:
            self._signal_pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._add_reader(self._signal_pipe[0], self._read_signals)
        return self._signal_pipe[1]

    def _read_signals(self) -> None:
        """Handlers set with `signal.signal` run in Python's own time; ours are called here."""
        assert self._signal_pipe is not None
        try:
            numbers = os.read(self._signal_pipe[0], 4096)
        except BlockingIOError:
            return
        for number in numbers:
            self._handle_signal(number)

    def _close_signals(self) -> None:
        """The first step of closing the loop."""
        if sys.is_finalizing():
            # Threads and modules are half gone; the VM gives the signals back by itself.
            self._signal_handlers.clear()
            return
        for sig in list(self._signal_handlers):
            self.remove_signal_handler(sig)
        if self._watches_alarm:
            self._watches_alarm = False
            self._remove_reader(ALARM.read_end)
        if self._signal_pipe is not None:
            read_end, write_end = self._signal_pipe
            self._signal_pipe = None
            self._remove_reader(read_end)
            os.close(read_end)
            os.close(write_end)


def _nothing(_sig: int, _frame: object) -> None:
    """The signal's number in the pipe is what counts."""
