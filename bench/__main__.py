"""The command line: `bench/run` and `make bench`, `bench-check`, `bench-baseline`."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path

from bench import baseline, checking, load_client, native, page, plot, servers, store
from bench.contenders import BARE, ROOT
from bench.registry import CASES, Budget, Case
from bench.rounds import Plan, take

PAGE = ROOT / "bench" / "README.md"
PLOT = PAGE.with_name(page.PLOT)
#: Rounds and seconds.
SHORT = (3, 0.2)
FULL = (5, 0.5)

WORK = """\
run: measure and write the page (unless only some of it was measured); page: write it again from the
last run's samples; check: compare with baseline.json; baseline: write that; list: show all cases"""


def options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    works = ("run", "page", "check", "baseline", "list")
    parser.add_argument("work", nargs="?", default="run", choices=works, help=WORK)
    parser.add_argument("--full", action="store_true", help="more and longer rounds, all cases")
    parser.add_argument("--rounds", type=int, help="how often each case is run")
    parser.add_argument("--seconds", type=float, help="how long a sample is")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; for a quick try")
    parser.add_argument(
        "--only", action="append", help="cases or groups: tcp, timers, 'call_*'; repeatable"
    )
    parser.add_argument("--loops", help="some of asyncio,uvloop,rloop,erlang_loop,bare,...")
    parser.add_argument(
        "--baseline", type=Path, default=baseline.FILE, help="another file than baseline.json"
    )
    parser.add_argument("--in-node", action="store_true", help="all loops inside a node")
    return parser.parse_args(words)


def chosen(patterns: list[str] | None, full: bool) -> list[Case]:
    """The cases that a pattern names: by name, by the beginning of a name, or by group."""
    if not patterns:
        return [case for case in CASES.values() if full or not case.full_only]
    found = [case for case in CASES.values() if any(_names(pattern, case) for pattern in patterns)]
    if not found:
        sys.exit(f"bench: no case is named {', '.join(patterns)} (`bench/run list` has them all)")
    return found


def _names(pattern: str, case: Case) -> bool:
    if pattern in CASES:
        return pattern == case.name
    beginning = case.name.startswith(pattern)
    return beginning or pattern == case.group or fnmatch(case.name, pattern)


def planned(asked: argparse.Namespace, default: frozenset[str] | None = None) -> Plan:
    every = frozenset(name for case in CASES.values() for name in case.contenders) | {BARE}
    wanted = frozenset(asked.loops.split(",")) if asked.loops else default or every
    unknown = wanted - every
    if unknown:
        names = ", ".join(sorted(every))
        sys.exit(f"bench: no such contender: {', '.join(sorted(unknown))} (there are: {names})")
    rounds, seconds = FULL if asked.full else SHORT
    return Plan(
        rounds=asked.rounds or rounds,
        budget=Budget(asked.seconds or seconds, asked.scale),
        contenders=wanted,
        in_node=asked.in_node,
    )


def tell(line: str) -> None:
    print(line, flush=True)


def measure(asked: argparse.Namespace) -> int:
    cases = chosen(asked.only, asked.full)
    plan = planned(asked)
    plain = not (asked.only or asked.loops or asked.in_node)
    complete = plain and asked.scale == 1
    with servers.running(any(case.group == "stacks" for case in cases)):
        results = take(cases, plan, tell)
    core = native.measure(seconds=1 if asked.full else 0.2) if complete else {}
    run = store.Run(results, plan, _command(asked), core)
    if complete:
        store.save(run)
        write_page(run)
    else:
        tell(page.write(run))
    return 0


def _command(asked: argparse.Namespace) -> str:
    """The command line that repeats this run."""
    words = [word for word in sys.argv[1:] if word != "run"]
    if words in ([], ["--full"]):
        return "make bench FULL=1" if asked.full else "make bench"
    return " ".join(["bench/run", *words])


def write_page(run: store.Run) -> int:
    PAGE.write_text(page.write(run), encoding="utf-8")
    names = [case.name for case in CASES.values() if case.group in page.LOOP_GROUPS]
    PLOT.write_text(plot.draw(run.results, names), encoding="utf-8")
    tell(f"written: {PAGE.relative_to(ROOT)}, {PLOT.relative_to(ROOT)}")
    return 0


def check(asked: argparse.Namespace) -> int:
    if not asked.baseline.exists():
        sys.exit(f"bench: there is no {asked.baseline}; `make bench-baseline` writes a baseline")
    cases = checking.checked_cases(chosen(asked.only, full=True))
    plan = planned(asked, checking.CONTENDERS)
    losses = checking.check(baseline.read(asked.baseline), cases, plan, tell)
    for loss in losses:
        tell(f"LOST  {loss.text}")
    tell("lost more than a tenth" if losses else "nothing has lost more than a tenth")
    return 1 if losses else 0


def write_baseline(asked: argparse.Namespace) -> int:
    cases = checking.checked_cases(chosen(asked.only, full=True))
    found = checking.new_baseline(cases, planned(asked, checking.CONTENDERS), tell)
    if asked.baseline.exists():
        found = found.including(baseline.read(asked.baseline))
    baseline.write(found, asked.baseline)
    tell(f"written: {asked.baseline}")
    return 0


def show_list() -> int:
    for case in CASES.values():
        tell(f"{case.group:<12} {case.name:<20} {case.what}")
    return 0


def main(words: list[str]) -> int:
    asked = options(words)
    if asked.work == "list":
        return show_list()
    if asked.work == "page":
        return write_page(store.load())
    load_client.build()
    return {"run": measure, "check": check, "baseline": write_baseline}[asked.work](asked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
