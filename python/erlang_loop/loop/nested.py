"""Running a loop inside one of its own callbacks, as the packages nest_asyncio and nest_asyncio2
allow. Libraries with a blocking API over coroutines rely on that.

These packages replace methods of a loop's class by ones that wait on asyncio's own selector. Our
class claims to be patched already (`ErlangEventLoop._nest_patched`), and supports nested runs
natively once one of the packages was applied; otherwise they raise, as in asyncio.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import compat

if TYPE_CHECKING:
    from .event_loop import ErlangEventLoop


_ASYNCIO = vars(asyncio)


def are_allowed() -> bool:
    """Whether one of the packages was applied. Checked in each run."""
    return "_nest_patched" in _ASYNCIO


def run_until_complete(loop: ErlangEventLoop, future: Any) -> Any:
    """Like asyncio's, but runs turns until the future is done: `stop()` would end the innermost
    run, which may be for another future."""
    loop._check_closed()
    is_new = not asyncio.isfuture(future)
    future = asyncio.ensure_future(future, loop=loop)
    if is_new:
        # The result is returned from here.
        future._log_destroy_pending = False
    with _running(loop):
        while not (future.done() or loop._stopping):
            loop._run_once()
        if loop._ready:
            # The future's callbacks run before this returns.
            loop._run_once()
    if not future.done():
        raise RuntimeError("Event loop stopped before Future completed.")
    return future.result()


def run_forever(loop: ErlangEventLoop) -> None:
    """Run until stop(), which also ends the enclosing runs."""
    loop._check_closed()
    with _running(loop):
        # A loop that was stopped before runs one turn, as in asyncio.
        loop._run_once()
        while not loop._stopping:
            loop._run_once()


@contextlib.contextmanager
def _running(loop: ErlangEventLoop) -> Iterator[None]:
    """Make the loop this thread's running loop, as `run_forever` does, and undo it afterwards."""
    before = loop._thread_id
    running = asyncio._get_running_loop()
    hooks = sys.get_asyncgen_hooks()
    loop._thread_id = threading.get_ident()
    sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
    compat.running_loop_set(loop)
    # Tasks run steps while a step of the outer task is unfinished. From Python 3.15 on, the current
    # task can only be set for the running loop.
    task = compat.swap_current_task(loop, None)
    listened_before = loop._listen_to_python() if before is None else None
    loop._set_coroutine_origin_tracking(loop.get_debug())
    try:
        yield
    finally:
        if before is None:
            loop._set_coroutine_origin_tracking(False)
            loop._stop_listening(listened_before)
            loop._stopping = False
        compat.swap_current_task(loop, task)
        compat.running_loop_set(running)
        sys.set_asyncgen_hooks(*hooks)
        loop._thread_id = before
