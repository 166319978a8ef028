"""The results that the project has reached (baseline.json), and whether it still reaches them.

It compares ratios to other loops, of CPU time where that was measured, because both sides of a
ratio ran on the same machine; and counts of instructions, which depend on the compilers only. A
case that is more than a tenth worse has lost.

A ratio may be half as high again on another processor. So the file has ratios for each processor
that was measured; on a new one, a case must reach the ratio that all others reach.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bench import machine
from bench.contenders import OURS
from bench.registry import CASES
from bench.rounds import Results
from bench.summary import cost_ratio, failure, geometric_mean

FILE = Path(__file__).with_name("baseline.json")
TOLERATED = 0.10

#: By case and loop: how many times less ours costs.
Ratios = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Baseline:
    #: By processor.
    ratios: dict[str, Ratios]
    #: By operation.
    instructions: dict[str, float]
    #: Counts of other compilers are not compared.
    compiler: str = ""
    #: For readers of the file; by processor, too.
    measured_on: dict[str, dict[str, str]] = field(default_factory=dict)

    def expected_on(self, processor: str) -> Ratios:
        """What is to be reached on a processor."""
        known = self.ratios.get(processor)
        return lowest(self.ratios.values()) if known is None else known

    def including(self, before: Baseline) -> Baseline:
        """With what an earlier one has of other processors."""
        return replace(
            self,
            ratios={**before.ratios, **self.ratios},
            measured_on={**before.measured_on, **self.measured_on},
        )


def lowest(measured: Iterable[Ratios]) -> Ratios:
    found: Ratios = {}
    for ratios in measured:
        for case, loops in ratios.items():
            least = found.setdefault(case, {})
            for loop, ratio in loops.items():
                least[loop] = min(ratio, least.get(loop, ratio))
    return found


@dataclass(frozen=True)
class Loss:
    what: str
    text: str


def here(ratios: Ratios, instructions: dict[str, float]) -> Baseline:
    """A baseline of this machine."""
    processor = machine.processor()
    measured_on = {processor: dict(machine.describe())}
    return Baseline({processor: ratios}, instructions, compiler(), measured_on)


def compiler() -> str:
    """Of our code and of Python's: counts in a node have both."""
    python = f"{platform.python_version()}, {platform.python_compiler()}"
    return f"{machine.compiler()}, {platform.machine()}, Python {python}"


def read(path: Path = FILE) -> Baseline:
    return Baseline(**json.loads(path.read_text(encoding="utf-8")))


def write(baseline: Baseline, path: Path = FILE) -> None:
    path.write_text(json.dumps(asdict(baseline), indent=2) + "\n", encoding="utf-8")


def ratios_of(results: Results, others: Iterable[str]) -> Ratios:
    found: Ratios = {}
    for name in results.samples:
        for other in others:
            one = cost_ratio(results, CASES[name], other)
            if one is not None:
                found.setdefault(name, {})[other] = round(one, 3)
    return found


def lost_ratios(expected: Ratios, results: Results) -> list[Loss]:
    """Cases that ours wins less clearly than before, or cannot do any more.

    The mean over the other loops counts: if ours has become slower, that shows against all of them;
    a lucky sample of one of them does not. A loop that is not installed is left out.
    """
    losses = []
    for name, before in expected.items():
        if name not in results.samples:
            continue
        broken = failure(results, name, OURS)
        if broken is not None:
            losses.append(Loss(name, f"{name}: fails now: {broken.reason}"))
            continue
        now = {other: cost_ratio(results, CASES[name], other) for other in before}
        both = {other: (new, before[other]) for other, new in now.items() if new is not None}
        kept = geometric_mean(new / old for new, old in both.values())
        if kept is not None and kept < 1 - TOLERATED:
            told = (f"{new:.2f} times {other}, was {old:.2f}" for other, (new, old) in both.items())
            losses.append(Loss(name, f"{name}: {'; '.join(told)}"))
    return losses


def lost_instructions(baseline: Baseline, counted: Mapping[str, float]) -> list[Loss]:
    """Operations that take more instructions than before."""
    losses = []
    for name, old in baseline.instructions.items():
        new = counted.get(name)
        if new is not None and new > old * (1 + TOLERATED):
            losses.append(Loss(name, f"{name}: {new:,.0f} instructions, were {old:,.0f}"))
    return losses
