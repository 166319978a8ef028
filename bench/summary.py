"""From samples to figures: medians, ratios within rounds, geometric means. Used by the pages."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from bench.contenders import OURS
from bench.registry import CASES, Case, Sample
from bench.rounds import Failure, Results


@dataclass(frozen=True)
class Ratio:
    """How many times better ours is."""

    value: float
    #: All rounds agree on who is better.
    certain: bool


def samples(results: Results, case: str, contender: str) -> list[Sample]:
    found = results.samples.get(case, {}).get(contender, [])
    return [result for result in found if isinstance(result, Sample)]


def failure(results: Results, case: str, contender: str) -> Failure | None:
    """Why there is no figure; None if there is one, or none was requested."""
    failures = results.failures(case, contender)
    return failures[-1] if failures and not samples(results, case, contender) else None


def median(results: Results, case: str, contender: str) -> float | None:
    values = [sample.value for sample in samples(results, case, contender)]
    return statistics.median(values) if values else None


def median_of(results: Results, case: str, contender: str, name: str) -> float | None:
    """Of another figure of the samples: cpu_us, p50_us, p99_us, or one of `more`."""
    values = []
    for sample in samples(results, case, contender):
        value = getattr(sample, name, None) if hasattr(sample, name) else sample.more.get(name)
        if value is not None:
            values.append(value)
    return statistics.median(values) if values else None


def ratio(results: Results, case: Case, other: str) -> Ratio | None:
    """The median of the ratios within each round."""
    by_contender = results.samples.get(case.name, {})
    ratios = []
    for ours, theirs in zip(by_contender.get(OURS, []), by_contender.get(other, [])):
        if isinstance(ours, Sample) and isinstance(theirs, Sample):
            ratios.append(times_better(case, ours.value, theirs.value))
    if not ratios:
        return None
    certain = all(value >= 1 for value in ratios) or all(value <= 1 for value in ratios)
    return Ratio(statistics.median(ratios), certain)


def cost_ratio(results: Results, case: Case, other: str) -> float | None:
    """How many times less CPU time ours takes, where that is known; else as `ratio`.

    Other programs disturb CPU time far less than the time on the wall: for comparing two days.
    """
    by_contender = results.samples.get(case.name, {})
    found = []
    for ours, theirs in zip(by_contender.get(OURS, []), by_contender.get(other, [])):
        if isinstance(ours, Sample) and isinstance(theirs, Sample):
            if ours.cpu_us and theirs.cpu_us:
                found.append(theirs.cpu_us / ours.cpu_us)
            else:
                found.append(times_better(case, ours.value, theirs.value))
    return statistics.median(found) if found else None


def times_better(case: Case, ours: float, theirs: float) -> float:
    # A figure of zero, such as no CPU time at all, counts as the least that can be measured.
    ours, theirs = max(ours, 1e-9), max(theirs, 1e-9)
    return theirs / ours if case.less_is_better else ours / theirs


def ratios(results: Results, other: str, names: Iterable[str]) -> dict[str, Ratio]:
    """Of the cases that both have done."""
    found = {}
    for name in names:
        one = ratio(results, CASES[name], other)
        if one is not None:
            found[name] = one
    return found


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else None


def mean_cost_ratio(results: Results, other: str, names: Iterable[str]) -> float | None:
    """Of CPU time only."""
    found = []
    for name in names:
        if median_of(results, name, OURS, "cpu_us") and CASES[name].counts:
            one = cost_ratio(results, CASES[name], other)
            if one is not None and median_of(results, name, other, "cpu_us"):
                found.append(one)
    return geometric_mean(found)


def mean_ratio(results: Results, other: str, names: Iterable[str]) -> float | None:
    counted = [name for name in names if CASES[name].counts]
    return geometric_mean(one.value for one in ratios(results, other, counted).values())
