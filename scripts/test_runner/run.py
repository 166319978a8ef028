"""Runs one step as a child process, with its output in _build/test-logs/<step>.log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

from test_runner.counts import Counts
from test_runner.steps import LOGS, Step

# A step that takes this long hangs: its whole process group is ended and it counts as failed.
LONGEST_SECONDS = 3600
# More failures than these are no accident of timing on a busy machine.
FEW = 5


@dataclass(frozen=True)
class Result:
    step: Step
    counts: Counts
    seconds: float
    log: Path
    # Why it failed although no test did, or why it was left out.
    remark: str = ""


def run_step(step: Step, again: bool = False) -> Result:
    if again and step.again:
        step = replace(step, command=step.again)
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{step.name}.log"
    reason = step.left_out()
    if reason:
        return Result(step, Counts(), 0.0, log, f"left out: {reason}")
    begun = time.monotonic()
    code = _run(step, log)
    seconds = time.monotonic() - begun
    counts = step.count(_plain(log.read_text(errors="replace")))
    return _judge(Result(step, counts, seconds, log), code)


def few_failed(result: Result) -> bool:
    """Whether only tests failed, and few. A failed tool or a node that crashed has a remark."""
    return bool(result.step.again) and 0 < result.counts.failed <= FEW and not result.remark


def retry_step(result: Result) -> Result:
    """Runs the failed tests once more. If all pass, they count, and the remark says how many."""
    step, before = result.step, result.counts
    result.log.rename(result.log.with_suffix(".first.log"))
    again = run_step(step, again=True)
    seconds = result.seconds + again.seconds
    if again.counts.failed or again.counts.passed < before.failed:
        return replace(result, log=again.log, seconds=seconds, remark="also when run again")
    counts = replace(before, passed=before.passed + before.failed, failed=0)
    remark = f"{before.failed} of them only when run again"
    return Result(step, counts, seconds, again.log, remark)


def _run(step: Step, log: Path) -> int | None:
    """The exit code, or None after LONGEST_SECONDS."""
    env = {**os.environ, "CARGO_TERM_COLOR": "never", "TERM": "dumb", **step.env}
    with log.open("wb") as output:
        child = subprocess.Popen(
            step.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        try:
            return child.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Also after Ctrl-C, which does not reach a child in its own session.
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _judge(result: Result, code: int | None) -> Result:
    """A tool that exits with an error, or that runs no test, has failed, too."""
    counts = result.counts
    if counts.failed and code is not None:
        return result
    if code is None:
        remark = f"ended after {LONGEST_SECONDS} s"
    elif code != 0:
        remark = f"exit code {code}"
    elif counts.passed == 0:
        remark = "ran no test"
    else:
        return result
    # A checker's one test is the one that failed.
    passed = 0 if result.step.is_checker else counts.passed
    return replace(
        result, counts=replace(counts, passed=passed, failed=counts.failed + 1), remark=remark
    )


def _plain(text: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
