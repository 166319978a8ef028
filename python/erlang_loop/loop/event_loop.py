"""ErlangEventLoop: the native loop, with asyncio's own loop behind it for everything rare."""

from __future__ import annotations

import functools
import sys
import threading
import traceback
import weakref
from asyncio import base_events, format_helpers
from collections.abc import Callable
from typing import Any

import erlang_loop_fork

from .. import _native, compat, lints
from ..placeholders import named, showable
from . import nested
from .blocking import BlockingDetection
from .interrupts import Interruptible
from .io.connecting import Connecting
from .io.datagram_endpoints import DatagramEndpoints
from .io.transports import TransportMethods
from .microtasks import Microtasks
from .signals import SignalHandlers
from .subprocesses import Children
from .views.queues import ReadyView, ScheduledView
from .views.selector import SelectorOnDemand, SelectorView
from .views.transports import TransportView

#: All loops, by the number of the native loop.
_loops: weakref.WeakValueDictionary[int, ErlangEventLoop] = weakref.WeakValueDictionary()


def all_loops() -> list[ErlangEventLoop]:
    """The loops that are not closed. From any thread."""
    # A list in one step: other threads may begin loops meanwhile.
    loops = [reference() for reference in _loops.valuerefs()]
    return [loop for loop in loops if loop is not None and not loop.is_closed()]


class ErlangEventLoop(
    _native.Loop,
    BlockingDetection,
    Connecting,
    Microtasks,
    SignalHandlers,
    TransportMethods,
    DatagramEndpoints,
):
    """An asyncio event loop that lives in the Erlang VM.

    The native base comes first and has what runs on every callback; the selector loop of the
    running Python has the rest. What that loop does differently is a bug here.

    `isolated=True` gives the loop an Erlang process of its own, a `py_event_worker`: use it for
    loops in several threads. `spin` and `direct_wait` (seconds) tune how long an idle loop looks
    and waits by itself before the VM waits for it; 0 leaves the step out.
    """

    #: A loop has no dict before a program puts something into it: from 3.12 on CPython remembers
    #: where methods are only of objects without one.
    __slots__ = (*compat.LOOP_ATTRIBUTES, "_children", "_watches_alarm")

    _selector = SelectorOnDemand()

    #: There is nothing to patch: see `nested`.
    _nest_patched = True

    def __init__(
        self,
        isolated: bool = False,
        *,
        spin: float | None = None,
        direct_wait: float | None = None,
    ) -> None:
        # isolated, spin and direct_wait were taken by __new__, which is native.
        if erlang_loop_fork.is_child:
            erlang_loop_fork.warn()
        self._look_at_clock()
        compat.begin_selector_loop(self, SelectorView)
        #: Made for the first one.
        self._children: Children | None = None
        self._watches_alarm = False
        _loops[self._number] = self
        lints.install()

    @functools.cached_property
    def _watcher(self) -> Any:
        return compat.child_watcher()

    # The native loop is woken without a pipe to itself.

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    @property
    def _ready(self) -> ReadyView:
        return ReadyView(self)

    @_ready.setter
    def _ready(self, queue: object) -> None:
        pass  # asyncio's loop begins with an empty one, and so do we.

    @property
    def _scheduled(self) -> ScheduledView:
        return ScheduledView(self)

    @_scheduled.setter
    def _scheduled(self, timers: object) -> None:
        pass  # As `_ready`.

    @property
    def _transports(self) -> TransportView:
        return TransportView(self)

    @_transports.setter
    def _transports(self, transports: object) -> None:
        pass  # As `_ready`.

    async def _make_subprocess_transport(self, *args: Any, **kwargs: Any) -> Any:
        if compat.has_chosen_child_watcher():
            return await super()._make_subprocess_transport(*args, **kwargs)
        if self._children is None:
            self._children = Children()
        return await self._children.start(self, *args, **kwargs)

    def run_until_complete(self, future: Any) -> Any:
        """Run until the future is done, and return its result."""
        if nested.are_allowed():
            return nested.run_until_complete(self, future)
        return super().run_until_complete(future)

    def run_forever(self) -> None:
        """Run until stop() is called."""
        if nested.are_allowed():
            nested.run_forever(self)
            return
        self._run_forever_setup()
        try:
            listened_before = self._listen_to_python()
            interruptible = Interruptible(self)
            try:
                self._run_turns()
            finally:
                interruptible.end()
                self._stop_listening(listened_before)
        finally:
            self._run_forever_cleanup()

    def _run_forever_setup(self) -> None:
        """As asyncio's from Python 3.13 on, where loops inside other loops (GUIs) call it."""
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)
        self._old_agen_hooks = sys.get_asyncgen_hooks()
        self._thread_id = threading.get_ident()
        sys.set_asyncgen_hooks(
            firstiter=self._asyncgen_firstiter_hook,
            finalizer=self._asyncgen_finalizer_hook,
        )
        compat.running_loop_set(self)

    def _run_forever_cleanup(self) -> None:
        self._stopping = False
        self._thread_id = None
        compat.running_loop_set(None)
        self._set_coroutine_origin_tracking(False)
        sys.set_asyncgen_hooks(*self._old_agen_hooks)

    def close(self) -> None:
        """Close the loop: what is scheduled is dropped, the executor is shut down."""
        if self.is_closed() and not self.is_running():
            return
        if not self.is_running():
            self._close_signals()
        super().close()
        if self._children is not None:
            self._children.close()
        self._close_native()

    def __del__(
        self,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        close_unless_closed: Callable[[Any], None] = base_events.BaseEventLoop.__del__,
    ) -> None:
        """Closes a loop that was forgotten, with a warning, as asyncio's does.

        A loop that lives until the end of Python is closed without a word. asyncio's own code
        cannot do that here: CPython clears the globals of modules before this is called, because
        native code keeps those of asyncio alive beyond the last garbage collection.
        """
        if is_finalizing():
            self._close_native()
        else:
            close_unless_closed(self)

    # Called by the native loop.

    def _callback_failed(self, handle: _native.Handle, error: BaseException) -> None:
        """A callback raised: tell the exception handler, as asyncio's Handle does."""
        name = named(lambda _: compat.format_callback(handle, self._debug), handle._callback)
        context: dict[str, Any] = {
            "message": f"Exception in callback {name}",
            "exception": error,
            "handle": handle,
        }
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        lints.exception(context)
        super().call_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        # asyncio asks each for its repr(); an exception has none in the log but its traceback.
        shown = {key: showable(value) for key, value in context.items() if key != "exception"}
        super().default_exception_handler(context | shown)

    def _run_handle_debug(self, handle: _native.Handle) -> None:
        """Debug mode: run a callback and say so if it took long."""
        self._current_handle = handle
        try:
            started = self.time()
            handle._run()
            took = self.time() - started
            if took >= self.slow_callback_duration:
                name = base_events._format_handle(handle)  # type: ignore[attr-defined]
                logger = base_events.logger  # type: ignore[attr-defined]
                logger.warning("Executing %s took %.3f seconds", name, took)
        finally:
            self._current_handle = None
            # An exception that the callback kept has this frame: break the cycle.
            del handle

    def _creation_traceback(self) -> traceback.StackSummary:
        """Debug mode: where a handle is made, without our own frame."""
        caller = sys._getframe().f_back
        # None: a task's step in C, on a thread whose loop has no Python code below it.
        return traceback.StackSummary() if caller is None else format_helpers.extract_stack(caller)

    def __repr__(self) -> str:
        return (
            f"<{self.__class__.__name__} running={self.is_running()} "
            f"closed={self.is_closed()} debug={self.get_debug()}>"
        )


_native.own_methods(ErlangEventLoop)
