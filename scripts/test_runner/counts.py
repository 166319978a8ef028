"""How many tests ran: read from what each tool prints or writes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def one(_output: str) -> Counts:
    """A checker is one test, and passed unless its exit code says otherwise."""
    return Counts(passed=1)


def cargo(output: str) -> Counts:
    """`test result: ok. 3 passed; 0 failed; 1 ignored; ...`, once for each test binary."""
    rows = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", output, re.M)
    return Counts(*(sum(int(row[column]) for row in rows) for column in range(3)))


def common_test(output: str) -> Counts:
    """`All 3 tests passed.` or `Failed 1 tests. Skipped 3 (2, 1) tests. Passed 7 tests.`

    The pair is skipped by the suite and skipped because its preparation failed: that is a failure.
    """
    all_passed = _last(r"All (\d+) tests passed\.", output)
    if all_passed:
        return Counts(passed=all_passed[0])
    (passed,) = _last(r"Passed (\d+) tests\.", output) or (0,)
    (failed,) = _last(r"Failed (\d+) tests\.", output) or (0,)
    by_suite, unprepared = _last(r"Skipped \d+ \((\d+), (\d+)\) tests\.", output) or (0, 0)
    return Counts(passed, failed + unprepared, by_suite)


def cpython(output: str) -> Counts:
    """`12 excluded, 3 skipped`, then `40 passed, 0 failed`, from test/cpython/run.py."""
    passed, failed = _last(r"^(\d+) passed, (\d+) failed$", output) or (0, 0)
    excluded, skipped = _last(r"^(\d+) excluded, (\d+) skipped$", output) or (0, 0)
    return Counts(passed, failed, excluded + skipped)


def exunit(output: str) -> Counts:
    """`14 doctests, 39 tests, 2 failures, 1 skipped`, from `mix test`; parts may be missing."""
    (row,) = re.findall(r"^((?:\d+ \w+, )+\d+ failures?.*)$", output, re.M)[-1:] or ("",)
    number = {word.rstrip("s"): int(count) for count, word in re.findall(r"(\d+) (\w+)", row)}
    failed, skipped = number.pop("failure", 0), number.pop("skipped", 0)
    skipped += number.pop("excluded", 0)
    return Counts(sum(number.values()) - failed - skipped, failed, skipped)


def junit(path: Path) -> Counts:
    """The report that pytest writes with --junitxml; none if it ended before."""
    if not path.exists():
        return Counts()
    total = failed = skipped = 0
    for suite in ET.parse(path).getroot().iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return Counts(total - failed - skipped, failed, skipped)


def _last(pattern: str, output: str) -> tuple[int, ...] | None:
    """The numbers in the last match, or None."""
    found = list(re.finditer(pattern, output, re.M))
    return tuple(map(int, found[-1].groups())) if found else None
