"""Calls from Erlang to Python. bench/erlang/round_trips.escript runs them; this only names them."""

from __future__ import annotations

from dataclasses import replace

from bench import load_client, task_after_rest
from bench.registry import BareCase, Budget, Case, Sample, add


def _case(
    name: str,
    unit: str,
    what: str,
    less_is_better: bool = False,
    bare: BareCase | None = None,
    full_only: bool = False,
) -> None:
    add(
        Case(
            name, "erlang", unit, what, None, "erlang", less_is_better,
            contenders=("erlang_loop",), bare=bare, checked=False, counts=False,
            full_only=full_only,
        )
    )  # fmt: skip


def _wakes_and_task(budget: Budget) -> Sample:
    """The minimum on this machine: a thread wakes another one, and CPython runs the coroutine."""
    half = replace(budget, seconds=budget.seconds / 2)
    wakes = load_client.run("wakes", "", half).p50_us or 0.0
    return Sample(wakes + task_after_rest.measure(half))


for callers in (1, 10, 100):
    who = "1 caller" if callers == 1 else f"{callers} callers"
    _case(f"call_{callers}", "calls/s", f"py:call of a plain function, {who}.")
    _case(f"coroutine_{callers}", "calls/s", f"py:call of a coroutine function, {who}.")
_case("suspending_100", "calls/s", "py:call of a coroutine that awaits once, 100 callers.")
_case("submitted_100", "calls/s", "py:submit of the same and py:await, 100 callers.")
_case("own_loop_100", "calls/s", "py_event_loop:run on a separate loop, 100 callers.")
for size in (1, 4):
    what = f"py_event_loop_pool:run on a pool of {size}, 100 callers: compare with `own_loop_100`."
    _case(f"pool_of_{size}", "calls/s", what)
_case(
    "after_idle",
    "us",
    "py:call of a coroutine after 50 ms idle; the median. `bare`: one Rust thread wakes another, "
    "plus CPython creating and running a task without a loop.",
    True,
    bare=_wakes_and_task,
)
_case(
    "after_pause",
    "us",
    "The same after 10 ms idle: all threads sleep, but the caches are warmer; the median.",
    True,
)
_case(
    "port_after_idle",
    "us",
    "For comparison: a round trip to the program `cat` through a port after 50 ms idle; median.",
    True,
)
_case(
    "beside_computing",
    "us",
    "py:call of a coroutine while a Python thread computes and keeps the GIL for 5 ms at a time; "
    "the median.",
    True,
)
_case("beside_computing_500us", "us", "The same with `{switch_interval, 0.5}`; the median.", True)
_case("cast", "casts/s", "py:cast of a plain function, until all have run.")
_case(
    "stream",
    "items/s",
    "py:stream of an asynchronous generator, with demand for all items at once.",
)
_case("fold", "items/s", "py:fold over an asynchronous generator.")
_case("loop_start", "us", "py_event_loop:start_link, one of 10,000 loops.", True, full_only=True)
_case("loop_idle", "KiB", "Memory of a loop without requests, one of 10,000.", True, full_only=True)
_case(
    "loop_asked", "KiB", "Memory of a loop after one request, one of 10,000.", True, full_only=True
)
_case("loop_end", "us", "Ending 10,000 such loops at once, time per loop.", True, full_only=True)
