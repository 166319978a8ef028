"""Differences between the supported Python versions."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import selectors
import sys
from asyncio import BaseEventLoop, SelectorEventLoop, format_helpers, unix_events
from asyncio.log import logger
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from . import _native

if sys.version_info >= (3, 12):
    from inspect import iscoroutinefunction
else:
    # Also recognises coroutines that are marked generators.
    from asyncio import iscoroutinefunction

__all__ = [
    "HAS_LOOP_FACTORY",
    "LOOP_ATTRIBUTES",
    "begin_selector_loop",
    "child_watcher",
    "connection_context",
    "context_option",
    "current_loop",
    "format_callback",
    "has_chosen_child_watcher",
    "iscoroutinefunction",
    "run",
    "running_loop_set",
    "swap_current_task",
]

T = TypeVar("T")

#: asyncio.run and Runner take a loop_factory.
HAS_LOOP_FACTORY = sys.version_info >= (3, 12)


def format_callback(handle: _native.Handle, debug: bool) -> str:
    """The name of a handle's callback in asyncio's messages."""
    source: Callable[..., str] = format_helpers._format_callback_source
    if sys.version_info >= (3, 13):
        return source(handle._callback, handle._args, debug=debug)
    return source(handle._callback, handle._args)


def child_watcher() -> Any:
    """The child watcher that asyncio of Python 3.14 creates in each loop, as the system allows."""
    if sys.version_info < (3, 14):
        raise AttributeError("loops have no _watcher before Python 3.14")
    events: Any = unix_events
    return events._PidfdChildWatcher() if events.can_use_pidfd() else events._ThreadedChildWatcher()


#: Attributes of asyncio's selector loops that this loop lacks otherwise. A name that a version
#: does not have is never set.
LOOP_ATTRIBUTES = (
    "_asyncgens",
    "_asyncgens_shutdown_called",
    "_clock_resolution",
    "_coroutine_origin_tracking_enabled",
    "_coroutine_origin_tracking_saved_depth",
    "_current_handle",
    "_default_executor",
    "_exception_handler",
    "_executor_shutdown_called",
    "_internal_fds",
    "_old_agen_hooks",
    "_signal_handlers",
    "_timer_cancelled_count",
    "_unix_server_sockets",
    "slow_callback_duration",
)


def begin_selector_loop(loop: Any, view: Callable[[Any], selectors.BaseSelector]) -> None:
    """What asyncio's selector loop does in `__init__`, without what this loop does not need.

    That saves a third of the time of creating a loop: a table of transports, which is in the
    native loop, a selector, and a line in a debug log. An unknown Python version may do more;
    `test_loops.py` compares.
    """
    if sys.version_info >= (3, 16):
        SelectorEventLoop.__init__(loop, view(loop))
        return
    BaseEventLoop.__init__(loop)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("Using selector: %s", view.__name__)
    loop._signal_handlers = {}
    if sys.version_info >= (3, 13):
        loop._unix_server_sockets = {}


def running_loop_set(loop: asyncio.AbstractEventLoop | None) -> None:
    """Makes `loop` the running loop of this thread."""
    # Looked up each time, because some programs replace it.
    asyncio._set_running_loop(loop)


def swap_current_task(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None
) -> asyncio.Task[Any] | None:
    """Makes `task` the loop's current task and returns the previous one."""
    tasks: Any = asyncio.tasks
    before: asyncio.Task[Any] | None
    if sys.version_info >= (3, 12):
        before = tasks._swap_current_task(loop, task)
    else:
        before = tasks._current_tasks.pop(loop, None)
        if task is not None:
            tasks._current_tasks[loop] = task
    return before


def current_loop() -> asyncio.AbstractEventLoop | None:
    """The running loop or the one set for this thread; asyncio's function may create one."""
    running = asyncio._get_running_loop()
    if running is not None:
        return running
    if sys.version_info >= (3, 14):
        try:
            return asyncio.get_event_loop()
        except RuntimeError:
            return None
    local = getattr(asyncio.get_event_loop_policy(), "_local", None)
    return getattr(local, "_loop", None)


def connection_context() -> contextvars.Context | None:
    """The context in which all methods of a new connection's protocol run.

    None, before Python 3.15: each callback has a copy of the context that scheduled it.
    """
    return contextvars.copy_context() if sys.version_info >= (3, 15) else None


def context_option(context: contextvars.Context | None) -> dict[str, Any]:
    """The argument for methods of asyncio that have it from Python 3.15 on."""
    return {} if context is None else {"context": context}


def has_chosen_child_watcher() -> bool:
    """Whether the program has set a child watcher that is not one of asyncio's two defaults.

    Another watcher may reap all children (FastChildWatcher), or must be notified of them.
    """
    if sys.version_info >= (3, 14):
        return False
    watcher = getattr(asyncio.get_event_loop_policy(), "_watcher", None)
    defaults = (asyncio.ThreadedChildWatcher, asyncio.PidfdChildWatcher)
    return watcher is not None and type(watcher) not in defaults


def run(
    main: Coroutine[Any, Any, T],
    *,
    debug: bool | None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> T:
    """asyncio.run with a loop factory."""
    if asyncio._get_running_loop() is not None:
        # Checked before a loop is created, because it could not be ended here.
        raise RuntimeError("run() cannot be called from a running event loop")
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        return runner.run(main)
