"""What the runner prints: a row for each step, the log of a failed one, the sum as last line."""

from __future__ import annotations

from collections.abc import Sequence

from test_runner.run import Result
from test_runner.steps import LOGS, Step

LOG_LINES = 150


def begin(step: Step) -> None:
    print(f"{step.name:<14}", end="", flush=True)


def end(result: Result) -> None:
    print(_columns(result), flush=True)
    if result.counts.failed:
        lines = result.log.read_text(errors="replace").splitlines()
        print(f"--- the end of {result.log}")
        print("\n".join(lines[-LOG_LINES:]))
        print("---", flush=True)


def summary(results: Sequence[Result]) -> None:
    bad = [result for result in results if result.counts.failed]
    if bad:
        print("\nFailed, with full output in _build/test-logs:")
        for result in bad:
            print(f"{result.step.name:<14}{_columns(result)}")
    lucky = [result for result in results if "only when run again" in result.remark]
    if lucky:
        print("\nTests that failed and passed when run again; the first logs are *.first.log:")
        for result in lucky:
            print(f"{result.step.name:<14}{_columns(result)}")
    skipped = sum(result.counts.skipped for result in results)
    seconds = sum(result.seconds for result in results)
    print(f"\n{seconds:.0f} s" + (f", {skipped} skipped" if skipped else ""))
    passed = sum(result.counts.passed for result in results)
    failed = sum(result.counts.failed for result in results)
    last = f"{passed} passed, {failed} failed"
    # For .ci/run, since make adds a line of its own below this one when a test failed.
    (LOGS / "last-line").write_text(last + "\n")
    print(last, flush=True)


def _columns(result: Result) -> str:
    counts = result.counts
    if not (counts.passed or counts.failed):
        return result.remark
    row = f"{counts.passed:>6} passed {counts.failed:>4} failed {result.seconds:>7.1f} s"
    if counts.skipped:
        row += f"  {counts.skipped} skipped"
    if result.remark:
        row += f"  ({result.remark})"
    return row
