"""What differs between the Python versions we run on. The only module that asks for versions."""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
from asyncio import BaseEventLoop, SelectorEventLoop, format_helpers, unix_events
from asyncio.log import logger
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

from . import _native

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from .timeouts import timeout

if sys.version_info >= (3, 12):
    from inspect import iscoroutinefunction
else:
    # Knows of coroutines that are marked generators, too.
    from asyncio import iscoroutinefunction

__all__ = [
    "HAS_BUFFERED_TLS",
    "HAS_LOOP_FACTORY",
    "HAS_RUNNER",
    "LOOP_ATTRIBUTES",
    "all_tasks",
    "begin_selector_loop",
    "child_watcher",
    "current_loop",
    "format_callback",
    "has_chosen_child_watcher",
    "iscoroutinefunction",
    "run",
    "running_loop_set",
    "set_default_loop",
    "swap_current_task",
    "timeout",
]

T = TypeVar("T")

#: asyncio.run and Runner take a loop_factory.
HAS_LOOP_FACTORY = sys.version_info >= (3, 12)

#: asyncio's TLS protocol takes what is received in a buffer, and has the states we know.
HAS_BUFFERED_TLS = sys.version_info >= (3, 11)

#: asyncio.Runner exists.
HAS_RUNNER = sys.version_info >= (3, 11)


def all_tasks() -> WeakSet[asyncio.Task[Any]] | None:
    """The set that asyncio's tasks are in, where a task is put into it by calling its `add`.

    From 3.14 on they are in a list of CPython's own, and so they may be in a later 3.13.
    """
    if sys.version_info >= (3, 14):
        return None
    name = "_scheduled_tasks" if sys.version_info >= (3, 12) else "_all_tasks"
    found = getattr(asyncio.tasks, name, None)
    return found if type(found) is WeakSet else None


def format_callback(handle: _native.Handle, debug: bool) -> str:
    """How asyncio names the callback of a handle in messages."""
    source: Callable[..., str] = format_helpers._format_callback_source
    if sys.version_info >= (3, 13):
        return source(handle._callback, handle._args, debug=debug)
    return source(handle._callback, handle._args)


def child_watcher() -> Any:
    """What asyncio of Python 3.14 has in each loop, after a try what the system can."""
    if sys.version_info < (3, 14):
        raise AttributeError("loops have no _watcher before Python 3.14")
    events: Any = unix_events
    return events._PidfdChildWatcher() if events.can_use_pidfd() else events._ThreadedChildWatcher()


#: What asyncio's selector loops have, and we have not otherwise. A name that one version does not
#: know is never set.
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
    """What asyncio's selector loop does in `__init__`, without what is in our way.

    That is a third of the time it takes to make a loop: a table of transports that we have in
    the native loop, a selector, and a line for a log that hardly anybody reads. A Python that we
    do not know may do more; `test_loops.py` compares.
    """
    if sys.version_info >= (3, 15):
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
    # By name each time: some put another one in its place.
    asyncio._set_running_loop(loop)


def swap_current_task(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None
) -> asyncio.Task[Any] | None:
    """Makes `task` the loop's current one, and answers which was."""
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
    """The running loop or the one set for this thread; asyncio's function may make one."""
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


def has_chosen_child_watcher() -> bool:
    """Whether the program has set a child watcher that is not one of asyncio's two defaults.

    Those it may set can reap the children of others (FastChildWatcher), or must hear of them.
    """
    if sys.version_info >= (3, 14):
        return False
    watcher = getattr(asyncio.get_event_loop_policy(), "_watcher", None)
    defaults = (asyncio.ThreadedChildWatcher, asyncio.PidfdChildWatcher)
    return watcher is not None and type(watcher) not in defaults


def set_default_loop(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Makes `factory` the one asyncio.run, Runner and new_event_loop use."""
    if sys.version_info >= (3, 16):
        # Policies are gone.
        asyncio.new_event_loop = asyncio.events.new_event_loop = factory
        return
    from .policy import EventLoopPolicy

    if sys.version_info >= (3, 14):
        # The public function warns that policies will go.
        asyncio.events._set_event_loop_policy(EventLoopPolicy())
    else:
        asyncio.set_event_loop_policy(EventLoopPolicy())


def run(
    main: Coroutine[Any, Any, T],
    *,
    debug: bool | None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> T:
    """asyncio.run with a loop factory."""
    if asyncio._get_running_loop() is not None:
        # Before a loop is made, which could not be ended here either.
        raise RuntimeError("run() cannot be called from a running event loop")
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    return _run(main, debug, loop_factory)


def _run(
    main: Coroutine[Any, Any, T],
    debug: bool | None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> T:
    """asyncio.run of 3.9 and 3.10, which has no factory."""
    if not asyncio.iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    loop = loop_factory()
    try:
        asyncio.set_event_loop(loop)
        if debug is not None:
            loop.set_debug(debug)
        return loop.run_until_complete(main)
    finally:
        try:
            asyncio.runners._cancel_all_tasks(loop)  # type: ignore[attr-defined]
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
