"""`PeerPoolExecutor`: `concurrent.futures` over a pool of peers.

A thread for each peer waits for its work, so that a queue, cancellation and the end are those of
`ThreadPoolExecutor`. Each work has a peer to itself: a crash is the error of one future only.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import erlang

from .work import pack, run_all, unpack

#: Seconds that the peers of a new pool may take to start, init code included.
_START_TIMEOUT = 3600.0


class PeerDown(concurrent.futures.BrokenExecutor):
    """The peer ended while it ran this work, or the whole pool has. The text says why."""


class PeerPoolExecutor(concurrent.futures.Executor):
    """Runs functions in a pool of peers: crashes cost one future, and all cores compute.

    `pool` is the name of a running pool, or a dict of options of a new one, which ends with this
    executor. Without it, there is one peer for each core. A new pool is ready when this returns.

    Functions and arguments are pickled, so a function must be importable in the peer.
    """

    def __init__(self, pool: str | Mapping[str, Any] | None = None) -> None:
        self._owner: erlang.Pid | None = None
        if isinstance(pool, str):
            name = pool
        else:
            self._owner, name = _call("start", _options(pool or {}), timeout=_START_TIMEOUT)
        size, loops = _call("loops", name)
        self._peers = _Peers(name, loops)
        self._threads = concurrent.futures.ThreadPoolExecutor(size, f"peers-{name}")
        #: For an executor that is dropped without `shutdown`.
        self._dropped = weakref.finalize(self, _end_later, self._threads, self._owner)
        self._dropped.atexit = False

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        """Raises at once what prevents pickling: TypeError for a function without a global name."""
        return self._threads.submit(self._peers.run, pack(fn, args, kwargs))

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **options: Any,
    ) -> Iterator[Any]:
        """As `ProcessPoolExecutor.map`: `chunksize` items cross at a time."""
        if chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **options)
        items = zip(*iterables)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        results = super().map(run_all, itertools.repeat(fn), chunks, timeout=timeout, **options)
        return itertools.chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more work is taken. A pool that this executor has started ends after its last work."""
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        if self._dropped.detach() is None:
            # Called again.
            self._threads.shutdown(wait=wait)
        elif wait:
            _end(self._threads, self._owner)
        else:
            _end_later(self._threads, self._owner)


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = given.get("settings", {})
    # What can be imported here can be imported there, as with `multiprocessing`.
    if "venv" not in settings:
        folders = [path for path in map(os.path.abspath, sys.path) if os.path.exists(path)]
        settings = {"python_path": folders, **settings}
    return {"size": len(os.sched_getaffinity(0)), **given, "settings": settings}


def _end_later(threads: concurrent.futures.ThreadPoolExecutor, owner: erlang.Pid | None) -> None:
    threads.shutdown(wait=False)
    threading.Thread(target=_end, args=(threads, owner), name="peers-end").start()


def _end(threads: concurrent.futures.ThreadPoolExecutor, owner: erlang.Pid | None) -> None:
    threads.shutdown(wait=True)
    if owner is not None:
        _call("stop", owner, timeout=_START_TIMEOUT)


class _Peers:
    """Which peers are idle. A thread takes one for each work."""

    def __init__(self, pool: str, loops: list[str]) -> None:
        self._pool = pool
        self._count = len(loops)
        #: There are more of them than threads, if the pool has spares. The next one is on the left;
        #: its operations are atomic.
        self._idle = deque(loops)

    def run(self, work: bytes) -> Any:
        refused = 0
        while True:
            loop = self._idle.popleft()
            up = False
            try:
                what, value = _call("run", loop, work)
                up = what == "reply"
            finally:
                # One that is down becomes the last spare.
                (self._idle.appendleft if up else self._idle.append)(loop)
            if what == "reply":
                return unpack(value)
            if what == "peer_down":
                raise PeerDown(f"the peer ended while it ran this: {value}")
            refused += 1
            if refused % self._count == 0 and not _call("wait", self._pool):
                raise PeerDown(f"the pool {self._pool} has ended")


def _call(function: str, *args: Any, timeout: float | None = None) -> Any:
    return erlang.call("py_peer_executor", function, args, timeout=timeout)
