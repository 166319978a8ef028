"""What the project has reached, in baseline.json, and whether it still does.

Compared are ratios to other loops, of CPU time where there is one, as both sides of a ratio meet
the same machine; and counts of instructions, which depend on the compiler only. A loss of more than
a tenth is a loss.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench import machine
from bench.contenders import OURS
from bench.registry import CASES
from bench.rounds import Results
from bench.summary import cost_ratio, failure

FILE = Path(__file__).with_name("baseline.json")
TOLERATED = 0.10


@dataclass(frozen=True)
class Baseline:
    #: By case and loop: how many times less ours costs.
    ratios: dict[str, dict[str, float]]
    #: By operation.
    instructions: dict[str, float]
    #: Counts of different compilers are not compared.
    compiler: str = ""
    #: For whoever reads the file.
    measured_on: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Loss:
    what: str
    text: str


def here(ratios: dict[str, dict[str, float]], instructions: dict[str, float]) -> Baseline:
    """A baseline of this machine."""
    return Baseline(ratios, instructions, compiler(), dict(machine.describe()))


def compiler() -> str:
    return f"{machine.compiler()}, {platform.machine()}"


def read(path: Path = FILE) -> Baseline:
    return Baseline(**json.loads(path.read_text(encoding="utf-8")))


def write(baseline: Baseline, path: Path = FILE) -> None:
    path.write_text(json.dumps(asdict(baseline), indent=2) + "\n", encoding="utf-8")


def ratios_of(results: Results, others: Iterable[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name in results.samples:
        for other in others:
            one = cost_ratio(results, CASES[name], other)
            if one is not None:
                found.setdefault(name, {})[other] = round(one, 3)
    return found


def lost_ratios(baseline: Baseline, results: Results) -> list[Loss]:
    """Cases that ours wins less clearly than before, or cannot do any more.

    Against another loop that is not there today nothing is compared.
    """
    losses = []
    for name, before in baseline.ratios.items():
        if name not in results.samples:
            continue
        broken = failure(results, name, OURS)
        if broken is not None:
            losses.append(Loss(name, f"{name}: fails now: {broken.reason}"))
            continue
        for other, old in before.items():
            new = cost_ratio(results, CASES[name], other)
            if new is not None and new < old * (1 - TOLERATED):
                text = f"{name}: {new:.2f} times {other}, was {old:.2f}"
                losses.append(Loss(name, text))
    return losses


def lost_instructions(baseline: Baseline, counted: Mapping[str, float]) -> list[Loss]:
    """Operations that take more instructions than before."""
    losses = []
    for name, old in baseline.instructions.items():
        new = counted.get(name)
        if new is not None and new > old * (1 + TOLERATED):
            losses.append(Loss(name, f"{name}: {new:,.0f} instructions, were {old:,.0f}"))
    return losses
