"""`loop.add_signal_handler`: signals reach a loop through the Erlang VM, to which they belong.

Under `bin/erlang-loop` the process is Python's, and loops of the main thread have signals as
asyncio has them, from Python's own C handler, which writes to a file: so a `signal.signal` of the
program and the loop's handler know of each other (uvicorn puts its own handler there while it
serves, and then the one that `signal.getsignal` told it of). Once a loop of another thread wants
the same signal, the VM brings it to all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native, compat
from .alarm import Alarm
from .asyncio_private import AsyncioLoop

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")

#: True in a process of `bin/erlang-loop`.
RUNS_COMMAND = _native.runs_command()


if RUNS_COMMAND:
    ALARM = Alarm()

#: The loops to which the VM brings signals.
_TOLD_BY_ERLANG: weakref.WeakSet[SignalHandlers] = weakref.WeakSet()


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
            if not any(loop._has_signal(sig, by_erlang=False) for loop in ALARM.listeners()):
                default = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
                signal.signal(sig, default)
            if not self._has_python_signals():
                ALARM.listen_no_longer(self)
        return True

    def _handle_signal(self, sig: int) -> None:
        """A signal arrived. Called by the native turn, or for what Python's handler wrote."""
        handler = self._signal_handlers.get(sig)
        if handler is not None:
            self.call_soon(handler.callback, *handler.args, context=handler.context)

    def _take_signal(self, sig: int) -> bool:
        """Has the signal come here; True if Erlang brings it."""
        if _is_pythons(sig):
            self._take_from_python(sig)
            return False
        if _native.signal_watch(self, sig, True):
            _TOLD_BY_ERLANG.add(self)
            if RUNS_COMMAND:
                for loop in ALARM.listeners():
                    loop._have_erlang_bring(sig)
            return True
        name = signal.Signals(sig).name if sig in set(signal.Signals) else f"signal {sig}"
        if not RUNS_COMMAND:
            raise RuntimeError(
                f"{name} belongs to the Erlang VM, which does not give it to Python: "
                "run the program with bin/erlang-loop"
            )
        self._take_from_python(sig)
        return False

    def _take_from_python(self, sig: int) -> None:
        self._watch_alarm()
        try:
            ALARM.listen(self)
            signal.signal(sig, _nothing)
            # System calls of other code go on instead of failing with EINTR.
            signal.siginterrupt(sig, False)
        except ValueError as error:
            # Not the main thread.
            raise RuntimeError(str(error)) from None
        except OSError:
            if not self._has_python_signals():
                ALARM.listen_no_longer(self)
            raise RuntimeError(f"sig {sig} cannot be caught") from None

    def _have_erlang_bring(self, sig: int) -> None:
        """The VM has taken the signal from Python, for a loop of another thread."""
        if self._has_signal(sig, by_erlang=False):
            _native.signal_watch(self, sig, True)
            _TOLD_BY_ERLANG.add(self)
            self._signal_handlers[sig] = self._signal_handlers[sig]._replace(by_erlang=True)

    def _has_signal(self, sig: int, *, by_erlang: bool) -> bool:
        handler = self._signal_handlers.get(sig)
        return handler is not None and handler.by_erlang == by_erlang

    def _has_python_signals(self) -> bool:
        return any(not handler.by_erlang for handler in self._signal_handlers.values())

    # Python's C handler

    def _listen_to_python(self) -> int | None:
        """While the loop runs: what Python's handler takes ends the loop's sleep.

        Answers what `_stop_listening` has to restore, None if there is nothing.
        """
        if not RUNS_COMMAND or threading.get_ident() != threading.main_thread().ident:
            return None
        if not self._watches_alarm:
            self._call_before_sleep()
        return ALARM.take_over()

    def _before_sleep(self) -> None:
        """Called by the native turn."""
        # No fd may be left to watch it with: then a signal is taken with the next turn.
        with contextlib.suppress(OSError):
            self._watch_alarm()

    def _watch_alarm(self) -> None:
        """A loop that never sleeps, and handles no signals, need not."""
        if not self._watches_alarm:
            self._add_reader(ALARM.read_end, ALARM.read)
            self._watches_alarm = True

    def _stop_listening(self, before: int | None) -> None:
        if before is not None:
            ALARM.give_back(before)

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


def _is_pythons(sig: int) -> bool:
    """Whether Python's handler is to bring the signal to a loop of this thread."""
    if not RUNS_COMMAND or threading.current_thread() is not threading.main_thread():
        return False
    return not any(loop._has_signal(sig, by_erlang=True) for loop in list(_TOLD_BY_ERLANG))


def _nothing(_sig: int, _frame: object) -> None:
    """The signal's number in `ALARM` is what counts."""
