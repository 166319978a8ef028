"""CallbackLoop: what a program calls. The work is done by the native loop underneath."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from .. import _native
from . import children, ending
from .core import Core
from .interval import Interval
from .pool import Pool, PoolCall
from .priority import NORMAL
from .watches import FileLike, OnError, Watches

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")

ExceptionHandler = Callable[["CallbackLoop", "dict[str, Any]"], object]


class CallbackLoop:
    """A loop of callbacks on the native loop of ErlangEventLoop.

    A callback that raises does not end the loop: the exception handler is told. `isolated`,
    `spin` and `direct_wait` are as for ErlangEventLoop; `pool_size` is the number of threads for
    `run_in_pool`. Methods are for the loop's own thread, but for `call_soon_threadsafe`.
    """

    def __init__(
        self,
        *,
        isolated: bool = False,
        spin: float | None = None,
        direct_wait: float | None = None,
        pool_size: int | None = None,
    ) -> None:
        self._core = Core(isolated=isolated, spin=spin, direct_wait=direct_wait)
        self._core.front = weakref.ref(self)
        self._watches = Watches(self._core)
        self._pool = Pool(self._core, pool_size)
        self._endings = ending.Endings()

    @property
    def asyncio_loop(self) -> Core:
        """The asyncio loop underneath: coroutines may run on it beside the callbacks."""
        return self._core

    # ---- callbacks ----

    def call_soon(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        priority: int = NORMAL,
        context: Context | None = None,
    ) -> _native.Handle:
        """Call it in the next turn of the loop. `priority` is HIGH, NORMAL or LOW."""
        if priority == NORMAL:
            return self._core.call_soon(callback, *args, context=context)
        return _native.call_soon_prioritized(self._core, priority, callback, args, context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        context: Context | None = None,
    ) -> _native.Handle:
        """As `call_soon`, from any thread."""
        return self._core.call_soon_threadsafe(callback, *args, context=context)

    def queue_microtask(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        context: Context | None = None,
    ) -> _native.Handle:
        """Call it right after the callback that runs now, before any other."""
        return self._core.queue_microtask(callback, *args, context=context)

    def next_tick(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        context: Context | None = None,
    ) -> _native.Handle:
        """Another name of `queue_microtask`: there is one queue, in the order of the calls."""
        return self._core.queue_microtask(callback, *args, context=context)

    def set_microtask_limit(self, limit: int) -> None:
        """As ErlangEventLoop has it."""
        self._core.set_microtask_limit(limit)

    # ---- time ----

    def time(self) -> float:
        """Seconds, as `time.monotonic()`."""
        return self._core.time()

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        context: Context | None = None,
    ) -> _native.TimerHandle:
        """Call it once, `delay` seconds from now, never earlier."""
        return self._core.call_later(delay, callback, *args, context=context)

    set_timeout = call_later

    def set_interval(
        self, seconds: float, callback: Callable[[Unpack[_Ts]], object], *args: Unpack[_Ts]
    ) -> Interval:
        """Call it every so many seconds until it is cancelled."""
        self._core._check_closed()
        return Interval(self._core, seconds, callback, args)

    def cancel(self, scheduled: _native.Handle | Interval | PoolCall) -> None:
        """What any method here answered is not called any more. Twice is once."""
        scheduled.cancel()

    # ---- fds ----

    def add_reader(
        self,
        file: FileLike,
        callback: Callable[[Any], object],
        *,
        edge: bool = False,
        oneshot: bool = False,
        on_error: OnError | None = None,
    ) -> None:
        """Call `callback(file)` whenever it can be read, instead of the reader there was.

        `edge`: once whenever new data comes, so read until BlockingIOError. `oneshot`: once, then
        no more until it is added again. Files on disk are always ready.

        If the callback raises, the exception handler is told, and then `on_error(file, error)` is
        called. Without one, a socket is closed and not watched any more; a listening one goes on.
        """
        self._watches.add(file, False, callback, edge, oneshot, on_error)

    def add_writer(
        self,
        file: FileLike,
        callback: Callable[[Any], object],
        *,
        edge: bool = False,
        oneshot: bool = False,
        on_error: OnError | None = None,
    ) -> None:
        """As `add_reader`, for writing."""
        self._watches.add(file, True, callback, edge, oneshot, on_error)

    def remove_reader(self, file: FileLike) -> bool:
        """Stop watching it for reading; False if nobody did."""
        return self._watches.remove(file, False)

    def remove_writer(self, file: FileLike) -> bool:
        """Stop watching it for writing; False if nobody did."""
        return self._watches.remove(file, True)

    def remove_fd(self, file: FileLike) -> None:
        """Stop watching it. Fine for a file that is closed or was never watched."""
        self._watches.remove(file, False)
        self._watches.remove(file, True)

    # ---- threads, processes, signals ----

    def run_in_pool(
        self,
        function: Callable[[Unpack[_Ts]], Any],
        *args: Unpack[_Ts],
        callback: Callable[[Any], object] | None = None,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> PoolCall:
        """Run `function(*args)` in a thread, then `callback(result)` in the loop.

        If it raises, `on_error(exception)` is called, or the exception handler told.
        """
        return self._pool.run(function, args, callback, on_error)

    def add_child(self, process: Any, callback: Callable[[Any], object]) -> None:
        """Call `callback(process)` when a `subprocess.Popen` has ended; its returncode is set."""
        children.watch(self, process, callback)

    def add_signal_handler(
        self, sig: int, callback: Callable[[Unpack[_Ts]], object], *args: Unpack[_Ts]
    ) -> None:
        """Call `callback(*args)` whenever the signal arrives."""
        self._core.add_signal_handler(sig, callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove a handler; False if there was none."""
        return self._core.remove_signal_handler(sig)

    # ---- errors, and handlers that take long ----

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """`handler(loop, context)` hears of every exception that a callback raised.

        None, as in the beginning: it is logged.
        """
        if handler is None:
            self._core.set_exception_handler(None)
        else:
            # The core must not hold us, or a loop that is dropped would not go.
            itself = weakref.ref(self)
            self._core.set_exception_handler(lambda _core, context: handler(itself(), context))  # type: ignore[arg-type]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error as those of callbacks are; `message` and `exception` are its parts."""
        self._core.call_exception_handler(context)

    def set_blocking_threshold(self, seconds: float | None) -> None:
        """Log a warning that names each callback that takes this long; None: measure nothing."""
        self._core.set_blocking_threshold(seconds)

    # ---- running and ending ----

    def run_forever(self) -> None:
        """Run until `stop()` is called."""
        self._core.run_forever()

    def stop(self) -> None:
        """Have `run_forever` return after this turn."""
        self._core.stop()

    def is_running(self) -> bool:
        return self._core.is_running()

    def is_closed(self) -> bool:
        return self._core.is_closed()

    def at_shutdown(self, callback: Callable[[Unpack[_Ts]], object], *args: Unpack[_Ts]) -> None:
        """Call it when the loop is shut down: the last one added comes first."""
        self._endings.add(callback, args)

    def at_shutdown_wait(
        self,
        begin: Callable[[Callable[[], None]], object],
        abort: Callable[[], object] | None = None,
    ) -> None:
        """As `at_shutdown`, for what takes time: `begin(done)` has to call `done()`.

        The loop runs until then. `abort()` is called if that takes longer than the patience.
        """
        self._endings.add_waiting(begin, abort)

    def shutdown(self, *, patience: float = 5.0) -> list[PoolCall]:
        """End in order, within `patience` seconds, and close the loop.

        What `at_shutdown` registered is called; timers and callbacks are cancelled; watched
        sockets are closed; the pool's threads are joined; logs and output are flushed. Answers
        the pool's functions that did not end.
        """
        return ending.shutdown(self, patience)

    def close(self) -> None:
        """Close the loop at once: what is scheduled is dropped, what is watched stays open."""
        if self._core.is_closed():
            return
        if not self._core.is_running():
            for file in self._watches.files():
                self.remove_fd(file)
            self._pool.close(0)
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} running={self.is_running()} closed={self.is_closed()}>"
