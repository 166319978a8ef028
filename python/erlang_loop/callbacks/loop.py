"""CallbackLoop: the public class. The native loop inside it does the work."""

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
    from typing import Self

    from typing_extensions import TypeVarTuple, Unpack

    _Ts = TypeVarTuple("_Ts")

ExceptionHandler = Callable[["CallbackLoop", "dict[str, Any]"], object]


class CallbackLoop:
    """A loop of callbacks on the native loop of ErlangEventLoop.

    A callback that raises does not end the loop: the exception handler is called. `isolated`,
    `spin` and `direct_wait` are as for ErlangEventLoop; `pool_size` is the number of threads for
    `run_in_pool`. Only `call_soon_threadsafe` may be called from other threads.
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
        """The underlying asyncio loop: coroutines may run on it alongside the callbacks."""
        return self._core

    # ---- callbacks ----

    def call_soon(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        priority: int = NORMAL,
        context: Context | None = None,
    ) -> _native.Handle:
        """Call `callback` in the next turn of the loop. `priority` is HIGH, NORMAL or LOW."""
        if priority == NORMAL:
            return self._core.call_soon(callback, *args, context=context)
        return _native.call_soon_prioritized(self._core, priority, callback, args, context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _native.Handle:
        """As `call_soon`, from any thread."""
        return self._core.call_soon_threadsafe(callback, *args, context=context)

    def queue_microtask(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _native.Handle:
        """Call `callback` right after the current callback, before any other."""
        return self._core.queue_microtask(callback, *args, context=context)

    def next_tick(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _native.Handle:
        """Another name for `queue_microtask`: there is one queue, in the order of the calls."""
        return self._core.queue_microtask(callback, *args, context=context)

    def set_microtask_limit(self, limit: int) -> None:
        """See `ErlangEventLoop.set_microtask_limit`."""
        self._core.set_microtask_limit(limit)

    # ---- time ----

    def time(self) -> float:
        """Seconds, as `time.monotonic()`."""
        return self._core.time()

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> _native.TimerHandle:
        """Call `callback` once, `delay` seconds from now, never earlier."""
        return self._core.call_later(delay, callback, *args, context=context)

    set_timeout = call_later

    def set_interval(
        self, seconds: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts
    ) -> Interval:
        """Call `callback` every `seconds` seconds until cancelled."""
        self._core._check_closed()
        return Interval(self._core, seconds, callback, args)

    def cancel(self, scheduled: _native.Handle | Interval | PoolCall) -> None:
        """Cancel a handle returned by any of these methods. Cancelling twice has no effect."""
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
        """Call `callback(file)` whenever the file is readable; replaces the previous reader.

        `edge`: once whenever new data arrives, so read until BlockingIOError. `oneshot`: once,
        until the file is added again. Regular files are always ready.

        If the callback raises, the exception handler is called, then `on_error(file, error)`.
        Without `on_error`, a socket is closed and no longer watched; a listening socket continues.
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
        """Stop watching for reading; return False if the file was not watched."""
        return self._watches.remove(file, False)

    def remove_writer(self, file: FileLike) -> bool:
        """Stop watching for writing; return False if the file was not watched."""
        return self._watches.remove(file, True)

    def remove_fd(self, file: FileLike) -> None:
        """Stop watching the file. It may be closed, or never have been watched."""
        self._watches.remove(file, False)
        self._watches.remove(file, True)

    # ---- threads, processes, signals ----

    def run_in_pool(
        self,
        function: Callable[[Unpack[_Ts]], Any],
        *args: *_Ts,
        callback: Callable[[Any], object] | None = None,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> PoolCall:
        """Run `function(*args)` in a thread, then `callback(result)` in the loop.

        If it raises, `on_error(exception)` or the exception handler is called.
        """
        return self._pool.run(function, args, callback, on_error)

    def add_child(self, process: Any, callback: Callable[[Any], object]) -> None:
        """Call `callback(process)` when a `subprocess.Popen` has ended; its returncode is set."""
        children.watch(self, process, callback)

    def add_signal_handler(
        self, sig: int, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts
    ) -> None:
        """Call `callback(*args)` whenever the signal arrives."""
        self._core.add_signal_handler(sig, callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove a handler; return False if there was none."""
        return self._core.remove_signal_handler(sig)

    # ---- errors and slow handlers ----

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """Call `handler(loop, context)` for every exception raised by a callback.

        None, the default, logs the exception.
        """
        if handler is None:
            self._core.set_exception_handler(None)
        else:
            # The core must not refer to this object, or a dropped loop would not be freed.
            itself = weakref.ref(self)
            self._core.set_exception_handler(lambda _core, context: handler(itself(), context))  # type: ignore[arg-type]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error as for callbacks; `context` has `message` and `exception`."""
        self._core.call_exception_handler(context)

    def set_blocking_threshold(self, seconds: float | None) -> None:
        """Log a warning for each callback that takes this long; None disables it."""
        self._core.set_blocking_threshold(seconds)

    # ---- running and ending ----

    def run_forever(self) -> None:
        """Run until `stop()` is called."""
        self._core.run_forever()

    def stop(self) -> None:
        """Make `run_forever` return after this turn."""
        self._core.stop()

    def is_running(self) -> bool:
        return self._core.is_running()

    def is_closed(self) -> bool:
        return self._core.is_closed()

    def at_shutdown(self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts) -> None:
        """Call `callback` when the loop shuts down; the last one added is called first."""
        self._endings.add(callback, args)

    def at_shutdown_wait(
        self,
        begin: Callable[[Callable[[], None]], object],
        abort: Callable[[], object] | None = None,
    ) -> None:
        """Like `at_shutdown`, for work that takes time: `begin(done)` must call `done()`.

        The loop runs until then. `abort()` is called if that takes longer than `patience`.
        """
        self._endings.add_waiting(begin, abort)

    def shutdown(self, *, patience: float = 5.0) -> list[PoolCall]:
        """End in order, within `patience` seconds, and close the loop.

        Calls the callbacks of `at_shutdown`, cancels timers and callbacks, closes watched sockets,
        joins the pool's threads and flushes logs and output. Returns the pool's functions that did
        not end.
        """
        return ending.shutdown(self, patience)

    def close(self) -> None:
        """Close the loop at once: scheduled callbacks are dropped, watched files stay open."""
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
