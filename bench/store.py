"""The samples of the last complete run, so that the page can be written again without measuring."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.contenders import ROOT
from bench.registry import Budget, Sample
from bench.rounds import Failure, Plan, Result, Results

FILE = ROOT / "_build" / "bench" / "results.json"


@dataclass(frozen=True)
class Run:
    results: Results
    plan: Plan
    #: As the page tells it.
    command: str
    #: The core's own benchmarks.
    native: dict[str, float]


def save(run: Run, path: Path = FILE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = asdict(run)
    content["plan"]["contenders"] = sorted(run.plan.contenders)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(path: Path = FILE) -> Run:
    content = json.loads(path.read_text(encoding="utf-8"))
    plan = content["plan"]
    plan["budget"] = Budget(**plan["budget"])
    plan["contenders"] = frozenset(plan["contenders"])
    return Run(_results(content["results"]), Plan(**plan), content["command"], content["native"])


def _results(content: dict[str, Any]) -> Results:
    results = Results(foreign=content["foreign"])
    for case, by_contender in content["samples"].items():
        for contender, found in by_contender.items():
            for one in found:
                results.add(case, contender, _result(one))
    return results


def _result(content: dict[str, Any]) -> Result:
    return Failure(**content) if "reason" in content else Sample(**content)
