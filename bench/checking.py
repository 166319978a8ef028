"""`make bench-check` and `make bench-baseline`: has anything become slower?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench import baseline, counting, machine
from bench.baseline import Baseline, Loss, Ratios
from bench.contenders import OURS
from bench.registry import CASES, LOOPS, Case
from bench.rounds import Plan, take

Tell = Callable[[str], None]

#: How often a case that seems to have lost is measured again to confirm it.
SECOND_LOOKS = 3
#: How many times the rounds of a check a baseline takes.
BASELINE_ROUNDS = 3
CONTENDERS = frozenset(("asyncio", "uvloop", OURS))


def checked_cases(cases: list[Case]) -> list[Case]:
    """Those that are steady enough to be compared."""
    return [case for case in cases if CASES[case.name].checked]


def new_baseline(cases: list[Case], plan: Plan, tell: Tell) -> Baseline:
    """Measured now on this machine, with more rounds than a check: a lucky run must not set it."""
    results = take(cases, replace(plan, rounds=plan.rounds * BASELINE_ROUNDS), tell)
    others = [name for name in LOOPS if name != OURS]
    return baseline.here(baseline.ratios_of(results, others), counted(tell))


def check(known: Baseline, cases: list[Case], plan: Plan, tell: Tell) -> list[Loss]:
    """What has become slower than the baseline by more than is tolerated."""
    processor = machine.processor()
    if processor not in known.ratios:
        tell(f"no baseline of this processor ({processor}): compared with the lowest of others")
    losses = lost_after_second_looks(known.expected_on(processor), cases, plan, tell)
    if known.compiler == baseline.compiler():
        losses += baseline.lost_instructions(known, counted(tell))
    else:
        tell(f"instructions are not compared: the baseline is of {known.compiler}")
    return losses


def lost_after_second_looks(
    expected: Ratios, cases: list[Case], plan: Plan, tell: Tell
) -> list[Loss]:
    """Machines are noisy: a case that seems lost is measured again, and all its rounds count."""
    results = take(cases, plan, tell)
    losses = baseline.lost_ratios(expected, results)
    for _ in range(SECOND_LOOKS):
        suspects = {loss.what for loss in losses}
        if not suspects:
            break
        tell(f"again: {', '.join(sorted(suspects))}")
        results = take([case for case in cases if case.name in suspects], plan, tell, results)
        losses = baseline.lost_ratios(expected, results)
    return losses


def counted(tell: Tell) -> dict[str, float]:
    """All instruction counts that this machine can take; prints those that it cannot."""
    found: dict[str, float] = {}
    for what, count in (("core", counting.core), ("in a node", counting.in_node)):
        try:
            found.update(count())
        except counting.NotCounted as reason:
            tell(f"instructions are not counted ({what}): {reason}")
    return found
