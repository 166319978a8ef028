"""Counts what happened, and prints a failure when it happens."""

from __future__ import annotations

import asyncio
import sys
import time
import unittest
from typing import Any

import selection
import substitution
from time_limit import TimeLimit

from test import support


class ModuleResult(unittest.TestResult):
    """The result of one test module."""

    def __init__(self, name: str, limit: TimeLimit) -> None:
        super().__init__()
        self.name = name
        self.buffer = True
        self.excluded = 0
        self.passed = 0
        # Passed tests in which a loop of ours was made; the others test asyncio around it.
        self.on_the_loop = 0
        self.bad: list[str] = []
        self._limit = limit
        self._begun = time.monotonic()
        self._loops = 0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._loops = substitution.loops_made()
        self._limit.begin(test)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._limit.end()
        if support.environment_altered:
            # A warning above says what: a thread, a child process.
            support.environment_altered = False
            self._failed(test, "it left something behind")
        if asyncio._get_running_loop() is not None:
            # Or every test after it would fail.
            asyncio._set_running_loop(None)
            self._failed(test, "it left a running loop behind")
        super().stopTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._passed()

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._passed()

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._failed(test, "succeeded, though it was expected to fail\n")

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._failed(test, self.errors[-1][1])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._failed(test, self.failures[-1][1])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(subtest, self._exc_info_to_string(err, test))

    def line(self) -> str:
        text = f"{self.name:<26}{self.passed:>5} passed ({self.on_the_loop:>4} on the loop)"
        text += f"{len(self.bad):>4} failed{len(self.skipped):>4} skipped"
        text += f"{self.excluded:>4} excluded{time.monotonic() - self._begun:>7.1f} s"
        return text

    def _passed(self) -> None:
        self.passed += 1
        self.on_the_loop += substitution.loops_made() > self._loops

    def _failed(self, test: Any, text: str) -> None:
        name = selection.short_name(test)
        if name not in self.bad:
            self.bad.append(name)
        out = sys.__stdout__
        print(f"--- {name}\n{text.rstrip()}", file=out, flush=True)


class Totals:
    """The sum over modules."""

    def __init__(self) -> None:
        self.passed = self.on_the_loop = self.failed = self.skipped = self.excluded = 0
        self.bad: list[str] = []
        self.modules: dict[str, dict[str, int]] = {}

    def add(self, result: ModuleResult) -> None:
        self.modules[result.name] = {
            "passed": result.passed,
            "on_the_loop": result.on_the_loop,
            "failed": len(result.bad),
            "skipped": len(result.skipped),
            "excluded": result.excluded,
        }
        self.bad += result.bad
        for name, count in self.modules[result.name].items():
            setattr(self, name, getattr(self, name) + count)

    def as_dict(self) -> dict[str, Any]:
        names = ("passed", "on_the_loop", "failed", "skipped", "excluded")
        sums = {name: getattr(self, name) for name in names}
        return {"python": sys.version.split()[0], **sums, "bad": self.bad, "modules": self.modules}

    def text(self) -> str:
        lines = [f"failed: {name}" for name in self.bad]
        lines.append(f"{self.excluded} excluded, {self.skipped} skipped")
        lines.append(f"{self.on_the_loop} of the passed tests ran an ErlangEventLoop")
        lines.append(f"{self.passed} passed, {self.failed} failed")
        return "\n".join(lines)
