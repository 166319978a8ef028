"""Erlang asks Python. bench/erlang/round_trips.escript runs these; here they are only named."""

from __future__ import annotations

from bench.registry import Case, add


def _case(name: str, unit: str, what: str, less_is_better: bool = False) -> None:
    add(
        Case(
            name, "erlang", unit, what, None, "erlang", less_is_better,
            contenders=("erlang_loop",), bare=None, checked=False, counts=False,
        )
    )  # fmt: skip


for callers in (1, 10, 100):
    who = "1 caller" if callers == 1 else f"{callers} callers"
    _case(f"call_{callers}", "calls/s", f"py:call of a plain function, {who}.")
    _case(f"coroutine_{callers}", "calls/s", f"py:call of a coroutine function, {who}.")
_case("suspending_100", "calls/s", "py:call of a coroutine that awaits once, 100 callers.")
_case("own_loop_100", "calls/s", "py_event_loop:run on a loop of one's own, 100 callers.")
_case("after_idle", "us", "py:call of a coroutine after 50 ms of rest; the median.", True)
_case("cast", "casts/s", "py:cast of a plain function, until all have run.")
_case("stream", "items/s", "py:stream of an asynchronous generator, all items wanted at once.")
_case("fold", "items/s", "py:fold over an asynchronous generator.")
