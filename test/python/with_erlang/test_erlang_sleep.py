"""`py_event_loop._erlang_sleep`: does a thread sleep as long as it should, and only it?

That the router may die meanwhile is shown by py_supervision_of_python_SUITE.
"""

from __future__ import annotations

import math
import threading
import time

import py_event_loop
import pytest
from command import ERLANG_LOOP, running

#: The machine may make it late, but not this late.
MUCH_TOO_LATE = 5000


def slept(ms: float) -> float:
    started = time.monotonic()
    py_event_loop._erlang_sleep(ms)
    return (time.monotonic() - started) * 1000


@pytest.mark.parametrize("ms", [0, 0.2, 1, 1.999, 2, 2.001, 3.5, 20, 120])
def test_never_early(ms: float) -> None:
    for _ in range(5):
        assert ms <= slept(ms) < MUCH_TOO_LATE


def test_other_threads_run_meanwhile() -> None:
    turns = 0
    over = threading.Event()

    def sleeper() -> None:
        py_event_loop._erlang_sleep(50)
        over.set()

    thread = threading.Thread(target=sleeper)
    thread.start()
    while not over.is_set():
        turns += 1
    thread.join()
    assert turns > 1000


def test_a_hundred_at_once() -> None:
    took: list[float] = []
    threads = [threading.Thread(target=lambda: took.append(slept(100))) for _ in range(100)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(took) == 100
    assert min(took) >= 100
    # Not one after another.
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (-1, ValueError),
        (-0.001, ValueError),
        (-math.inf, ValueError),
        (math.nan, ValueError),
        (math.inf, OverflowError),
        (1e300, OverflowError),
        (10**400, OverflowError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_nonsense_is_refused(wrong: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        py_event_loop._erlang_sleep(wrong)


def test_ctrl_c_ends_it() -> None:
    code = "import py_event_loop; print('ready', flush=True); py_event_loop._erlang_sleep(600_000)"
    with running(ERLANG_LOOP, "-c", code) as program:
        program.wait_line("ready")
        ended = program.end(2)
    assert "KeyboardInterrupt" in ended.err
