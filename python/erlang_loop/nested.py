"""Runs of a loop inside one of its own callbacks: what the packages nest_asyncio and nest_asyncio2
add to asyncio, and libraries with a blocking front over coroutines rely on.

They replace methods of a loop's class by ones that wait on asyncio's own selector. Ours says that
this is done already (`ErlangEventLoop._nest_patched`), and does it natively: once one of them was
applied to asyncio, for otherwise it is the error that asyncio has.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import compat

if TYPE_CHECKING:
    from .loop import ErlangEventLoop


_ASYNCIO = vars(asyncio)


def are_allowed() -> bool:
    """Whether one of the packages was applied. Each run asks."""
    return "_nest_patched" in _ASYNCIO


def run_until_complete(loop: ErlangEventLoop, future: Any) -> Any:
    """As asyncio's, in turns until the future is done: `stop()` would end the innermost run, and
    that may be another future's."""
    loop._check_closed()
    is_new = not asyncio.isfuture(future)
    future = asyncio.ensure_future(future, loop=loop)
    if is_new:
        # Its end is told here.
        future._log_destroy_pending = False
    with _running(loop):
        while not (future.done() or loop._stopping):
            loop._run_once()
        if loop._ready:
            # What waits for the future's end hears of it before the caller does.
            loop._run_once()
    if not future.done():
        raise RuntimeError("Event loop stopped before Future completed.")
    return future.result()


def run_forever(loop: ErlangEventLoop) -> None:
    """Until stop(), which ends the runs around this one too."""
    loop._check_closed()
    with _running(loop):
        # A loop that was stopped before takes one turn, as asyncio's.
        loop._run_once()
        while not loop._stopping:
            loop._run_once()


@contextlib.contextmanager
def _running(loop: ErlangEventLoop) -> Iterator[None]:
    """The loop runs in this thread, as in `run_forever`; afterwards all is as it was before."""
    before = loop._thread_id
    running = asyncio._get_running_loop()
    hooks = sys.get_asyncgen_hooks()
    # Tasks take their steps while that of another one has not ended.
    task = compat.swap_current_task(loop, None)
    loop._thread_id = threading.get_ident()
    sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
    compat.running_loop_set(loop)
    listened_before = loop._listen_to_python() if before is None else None
    loop._set_coroutine_origin_tracking(loop.get_debug())
    try:
        yield
    finally:
        if before is None:
            loop._set_coroutine_origin_tracking(False)
            loop._stop_listening(listened_before)
            loop._stopping = False
        compat.running_loop_set(running)
        sys.set_asyncgen_hooks(*hooks)
        loop._thread_id = before
        compat.swap_current_task(loop, task)
