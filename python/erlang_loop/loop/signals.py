"""`loop.add_signal_handler`: the Erlang VM owns the signals and passes them to loops.

Under `bin/erlang-loop` loops of the main thread get signals as in asyncio, from Python's own C
handler, which writes to the wakeup fd. So `signal.signal` and `signal.getsignal` see the loop's
handler: uvicorn, for example, sets its own handler while it serves and restores the previous one.
Once a loop of another thread wants the same signal, the VM passes it to all of them.
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

from .. import _native, compat
from .alarm import Alarm
from .asyncio_private import AsyncioLoop

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")

#: True in a process of `bin/erlang-loop`.
RUNS_COMMAND = _native.runs_command()


if RUNS_COMMAND:
    ALARM = Alarm()

#: The loops to which the VM passes signals.
_TOLD_BY_ERLANG: weakref.WeakSet[SignalHandlers] = weakref.WeakSet()


class _Handler(NamedTuple):
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    #: The VM reports the signal; else Python's C handler does.
    by_erlang: bool


class SignalHandlers(AsyncioLoop):
    """The signal methods of ErlangEventLoop.

    They work as in asyncio, and also in loops of threads other than the main thread. Several loops
    may handle the same signal: all their handlers are called.
    """

    _watches_alarm = False
    _signal_handlers: dict[int, _Handler]

    def add_signal_handler(
        self, sig: int, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts
    ) -> None:
        """Call `callback(*args)` in the loop whenever the signal arrives.

        Raises RuntimeError if the signal cannot be caught, or if the VM does not release it: SIGINT
        in a node that was not started by `bin/erlang-loop`.
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
        """Remove a handler and restore the signal's effect; return False if there was none."""
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
        """A signal arrived. Called by the native turn, or when the pipe had its number."""
        handler = self._signal_handlers.get(sig)
        if handler is not None:
            self.call_soon(handler.callback, *handler.args, context=handler.context)

    def _take_signal(self, sig: int) -> bool:
        """Route the signal to this loop; return True if the VM passes it."""
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
                f"{name} belongs to the Erlang VM, which does not pass it to Python: "
                "run the program with bin/erlang-loop"
            )
        self._take_from_python(sig)
        return False

    def _take_from_python(self, sig: int) -> None:
        self._watch_alarm()
        try:
            ALARM.listen(self)
            signal.signal(sig, _nothing)
            # System calls of other code are restarted instead of failing with EINTR.
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
        """While the loop runs, signals that Python's handler gets wake the loop.

        Returns what `_stop_listening` has to restore, or None.
        """
        if not RUNS_COMMAND or threading.get_ident() != threading.main_thread().ident:
            return None
        if not self._watches_alarm:
            self._call_before_sleep()
        return ALARM.take_over()

    def _before_sleep(self) -> None:
        """Called by the native turn."""
        # If no fd is left to watch the pipe, the signal is handled in the next turn.
        with contextlib.suppress(OSError):
            self._watch_alarm()

    def _watch_alarm(self) -> None:
        """Watch the pipe. Not needed for a loop that never sleeps and handles no signals."""
        if not self._watches_alarm:
            self._add_reader(ALARM.read_end, ALARM.read)
            self._watches_alarm = True

    def _stop_listening(self, before: int | None) -> None:
        if before is not None:
            ALARM.give_back(before)

    def _close_signals(self) -> None:
        """The first step of closing the loop."""
        if sys.is_finalizing():
            # Threads and modules may be gone already; the VM restores the signals itself.
            self._signal_handlers.clear()
            return
        for sig in list(self._signal_handlers):
            self.remove_signal_handler(sig)
        if self._watches_alarm:
            self._watches_alarm = False
            self._remove_reader(ALARM.read_end)


def _is_pythons(sig: int) -> bool:
    """Whether Python's handler passes the signal to loops of this thread."""
    if not RUNS_COMMAND or threading.current_thread() is not threading.main_thread():
        return False
    return not any(loop._has_signal(sig, by_erlang=True) for loop in list(_TOLD_BY_ERLANG))


def _nothing(_sig: int, _frame: object) -> None:
    """Does nothing: Python writes the signal's number to `ALARM`."""
