"""`run_in_pool`: runs blocking work in threads."""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..loop.blocking import describe

if TYPE_CHECKING:
    from .core import Core

Callback = Callable[[Any], object] | None


class PoolCall:
    """A function that runs in the pool, or waits for a thread."""

    def __init__(
        self,
        pool: Pool,
        function: Callable[..., Any],
        callback: Callback,
        on_error: Callable[[BaseException], object] | None,
    ) -> None:
        self.function = function
        self._pool = pool
        self._callback = callback
        self._on_error = on_error
        self._context = contextvars.copy_context()
        self._cancelled = False
        self._future: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> bool:
        """No callback is called. True if the function had not started, and never will."""
        self._cancelled = True
        return self._future is not None and self._future.cancel()

    def cancelled(self) -> bool:
        return self._cancelled

    def done(self) -> bool:
        return self._future is not None and self._future.done()

    def _begin(self, executor: concurrent.futures.Executor, args: tuple[Any, ...]) -> None:
        # The function runs in the caller's context, the callback in a copy of it.
        self._future = executor.submit(self._context.copy().run, self.function, *args)
        self._future.add_done_callback(self._ended)

    def _ended(self, _future: concurrent.futures.Future[Any]) -> None:
        """Runs in the pool's thread. A closed loop gets no result."""
        with contextlib.suppress(RuntimeError):
            self._pool.core.call_soon_threadsafe(self._deliver, context=self._context)

    def _deliver(self) -> None:
        """Runs in the loop."""
        self._pool.calls.discard(self)
        if self._cancelled or self._future is None:
            return
        error = self._future.exception()
        if error is None:
            if self._callback is not None:
                self._callback(self._future.result())
        elif self._on_error is not None:
            self._on_error(error)
        else:
            name = describe(self.function)
            self._pool.core.call_exception_handler(
                {"message": f"Exception in {name}, run in the pool", "exception": error}
            )

    def _describe_handler(self) -> str:
        return describe(self._callback or self._on_error or self.function)


class Pool:
    """The threads of one loop, started when they are needed."""

    def __init__(self, core: Core, size: int | None) -> None:
        if size is not None and size < 1:
            raise ValueError("a pool needs at least one thread")
        self.core = core
        self._size = size
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self.calls: set[PoolCall] = set()

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        callback: Callback,
        on_error: Callable[[BaseException], object] | None,
    ) -> PoolCall:
        self.core._check_closed()
        if self._executor is None:
            self._executor = concurrent.futures.ThreadPoolExecutor(
                self._size, thread_name_prefix="erlang_loop-pool"
            )
        call = PoolCall(self, function, callback, on_error)
        self.calls.add(call)
        call._begin(self._executor, args)
        return call

    def close(self, patience: float) -> list[PoolCall]:
        """Cancel waiting functions, join running ones; return those that outlast `patience`."""
        if self._executor is None:
            return []
        self._executor.shutdown(wait=False, cancel_futures=True)
        running = {one._future: one for one in self.calls if one._future and not one.done()}
        left = concurrent.futures.wait(running, timeout=patience).not_done
        if not left:
            # Each thread is about to end: its last function has returned.
            self._executor.shutdown(wait=True)
        self._executor = None
        self.calls.clear()
        return [running[future] for future in left]
