"""Takes the samples: every case by every contender, in rounds, one process for each.

Within a round the contenders of a case follow each other, so the machine is in the same state for
all of them; another one begins in each round. A sample that fails, hangs or is not possible is a
result like any other and stops nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.contenders import ROOT, command
from bench.registry import Budget, Case, Sample
from bench.worker import MARK

#: A contender that failed this often in a case is not run again.
CHANCES = 2


@dataclass(frozen=True)
class Failure:
    """No sample, and why."""

    reason: str
    #: The machine lacks something, which is not an error.
    unavailable: bool = False


Result = Sample | Failure


@dataclass
class Results:
    """By case and contender, one for each round."""

    samples: dict[str, dict[str, list[Result]]] = field(default_factory=dict)
    #: The share of the machine's CPU time that other processes used.
    foreign: list[float] = field(default_factory=list)

    def add(self, case: str, contender: str, result: Result) -> None:
        self.samples.setdefault(case, {}).setdefault(contender, []).append(result)

    def failures(self, case: str, contender: str) -> list[Failure]:
        of_case = self.samples.get(case, {}).get(contender, [])
        return [result for result in of_case if isinstance(result, Failure)]


def limit(budget: Budget) -> float:
    """Seconds after which a sample hangs. The longest, idle_cpu, takes 55 times its budget."""
    return 60 + 60 * budget.seconds


def run_sample(words: Sequence[str], seconds: float, env: dict[str, str]) -> Result:
    """Runs a command that prints a sample, in a process group that ends with it."""
    try:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as problem:
        return Failure(str(problem), unavailable=True)
    with process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Failure(f"not done after {seconds:.0f} s")
        finally:
            # Its children end with it, also after Ctrl-C.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return _read(output, errors, process.returncode)


def _read(output: str, errors: str, code: int) -> Result:
    for line in output.splitlines():
        if line.startswith(MARK):
            reply: dict[str, Any] = json.loads(line[len(MARK) :])
            if "sample" in reply:
                return Sample(**reply["sample"])
            if "unavailable" in reply:
                return Failure(reply["unavailable"], unavailable=True)
            return Failure(reply["failed"])
    last = (errors.strip() or output.strip() or "nothing").splitlines()[-1]
    return Failure(f"ended with {code}: {last}")


def environment() -> dict[str, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    env.pop("PYTHONASYNCIODEBUG", None)
    env.pop("PYTHONDEVMODE", None)
    return env


@dataclass(frozen=True)
class Plan:
    rounds: int
    budget: Budget
    #: Names of contenders; a case's others are left out.
    contenders: frozenset[str]
    in_node: bool = False


def contenders_of(case: Case, plan: Plan) -> list[str]:
    names = [*case.contenders, *(["bare"] if case.bare else [])]
    return [name for name in names if name in plan.contenders]


def take(
    cases: Iterable[Case], plan: Plan, tell: Callable[[str], None], results: Results | None = None
) -> Results:
    """All rounds. `tell` is called with each line; samples are added to `results`, if passed."""
    cases = list(cases)
    results = results or Results()
    env = environment()
    for number in range(plan.rounds):
        for case in cases:
            names = contenders_of(case, plan)
            if not names:
                continue
            first = number % len(names)
            found = {}
            for name in [*names[first:], *names[:first]]:
                if len(results.failures(case.name, name)) >= CHANCES:
                    continue
                budget = case.budget(plan.budget)
                words = command(case, name, budget, plan.in_node)
                before = _machine()
                result = run_sample(words, limit(budget), env)
                results.foreign.append(_foreign_share(before, _machine()))
                results.add(case.name, name, result)
                found[name] = result
            if found:
                tell(f"{number + 1}/{plan.rounds} {_line(case, names, found)}")
    return results


def _line(case: Case, names: Iterable[str], found: dict[str, Result]) -> str:
    cells = []
    for name in names:
        result = found.get(name)
        if isinstance(result, Sample):
            cells.append(f"{name} {result.value:,.4g}")
        elif result is not None:
            cells.append(f"{name}: {result.reason}")
    return f"{case.name:<20} {'  '.join(cells)}"


@dataclass(frozen=True)
class _Machine:
    """CPU seconds: of the machine while it worked, and of our children that have ended."""

    busy: float
    ours: float
    passed: float


def _machine() -> _Machine:
    try:
        with open("/proc/stat") as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
    except OSError:
        ticks = [0] * 8
    # user nice system idle iowait irq softirq steal
    busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    times = os.times()
    ours = times.user + times.system + times.children_user + times.children_system
    return _Machine(busy, ours, time.monotonic())


def _foreign_share(before: _Machine, after: _Machine) -> float:
    """Of all cores' time."""
    passed = (after.passed - before.passed) * (os.cpu_count() or 1)
    foreign = (after.busy - before.busy) - (after.ours - before.ours)
    return max(0.0, foreign / passed) if passed else 0.0
