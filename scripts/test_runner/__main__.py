"""Runs the named steps, or all, in order; a failed one does not stop the rest.

`--again`: of the steps that can, only the tests that failed the last time.
`--retry`: a few tests that fail are run once more, and counted, with a remark, if they pass then.
"""

from __future__ import annotations

import sys

from test_runner import report
from test_runner.run import few_failed, retry_step, run_step
from test_runner.steps import STEPS


def main(names: list[str]) -> int:
    again, retry = "--again" in names, "--retry" in names
    names = [name for name in names if name not in ("--again", "--retry")]
    unknown = set(names) - {step.name for step in STEPS}
    if unknown:
        known = ", ".join(step.name for step in STEPS)
        print(f"no such step: {', '.join(sorted(unknown))} (there are: {known})", file=sys.stderr)
        return 2
    results = []
    for step in STEPS:
        if step.name in names or not names:
            report.begin(step)
            result = run_step(step, again)
            report.end(result)
            if retry and few_failed(result):
                report.begin(step)
                result = retry_step(result)
                report.end(result)
            results.append(result)
    report.summary(results)
    # If nothing passed, nothing ran, which is a failure.
    passed = any(result.counts.passed for result in results)
    failed = any(result.counts.failed for result in results)
    return 0 if passed and not failed else 1


sys.exit(main(sys.argv[1:]))
