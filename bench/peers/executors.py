"""Executors on the same functions: bin/erlang-loop bench/peers/executors.py [seconds] [rounds].

Calls a second with 1,000 works waiting, for works that compute 1 ms and for works of nothing, with
one worker and with two. The executors take turns in each round; the figures are medians. Those of
other projects are in requirements/bench.txt; one that is not installed is left out.

Processes of other executors import this file: erlang_loop, which only a node has, is imported where
it is used.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.peers import work

WAITING = 1000
SIZES = (1, 2)
WORKS = (1.0, 0.0)


@contextmanager
def peers(size: int) -> Iterator[Executor]:
    import erlang_loop

    with erlang_loop.PeerPoolExecutor({"size": size}) as pool:
        yield pool


@contextmanager
def processes(size: int) -> Iterator[Executor]:
    with ProcessPoolExecutor(size, get_context("fork")) as pool:
        yield pool


@contextmanager
def loky(size: int) -> Iterator[Executor]:
    pool = import_module("loky").ProcessPoolExecutor(size)
    yield pool
    pool.shutdown()


@contextmanager
def dask(size: int) -> Iterator[Any]:
    with import_module("distributed").Client(
        n_workers=size,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=50,
    ) as client:
        yield client.get_executor(pure=False)


EXECUTORS: dict[str, Callable[[int], Any]] = {
    "PeerPoolExecutor": peers,
    "ProcessPoolExecutor": processes,
    "loky": loky,
    "dask.distributed": dask,
}


def rate(pool: Any, milliseconds: float, seconds: float) -> float:
    """Finished works a second, in the order of submission."""

    def submit() -> Any:
        if milliseconds:
            return pool.submit(work.compute, milliseconds)
        return pool.submit(work.increment, 1)

    for warm in [submit() for _ in range(20)]:
        warm.result()
    waiting = deque(submit() for _ in range(WAITING))
    done = 0
    begin = time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        waiting.popleft().result()
        waiting.append(submit())
        done += 1
    for each in waiting:
        each.cancel()
    for each in waiting:
        with suppress(BaseException):
            each.result()
    return done / (now - begin)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rates: dict[tuple[str, int, float], list[float]] = {}
    for number in range(rounds):
        names = list(EXECUTORS)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            for size in SIZES:
                try:
                    with EXECUTORS[name](size) as pool:
                        for milliseconds in WORKS:
                            found = rate(pool, milliseconds, seconds)
                            rates.setdefault((name, size, milliseconds), []).append(found)
                except Exception as missing:
                    print(f"{name}: {missing}", file=sys.stderr)
    print(f"| executor | {' | '.join(f'{s} x, {w:g} ms' for w in WORKS for s in SIZES)} |")
    for name in EXECUTORS:
        if (name, 1, WORKS[0]) not in rates:
            continue
        cells = [f"{statistics.median(rates[name, s, w]):,.0f}" for w in WORKS for s in SIZES]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
