"""CPython's own test.test_asyncio, with ErlangEventLoop in place of the selector loop.

    bin/erlang-loop test/cpython/run.py                    all modules
    bin/erlang-loop test/cpython/run.py test_events -k udp  some
    python3 test/cpython/run.py --stock                    the same on asyncio's own loop

What is not run stands, with its reason, in the tables of docs/compatibility.md, where this
program reads it from. `--excluded` runs exactly those tests instead.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import selection  # noqa: E402
import substitution  # noqa: E402
from exclusions import Exclusions  # noqa: E402
from results import ModuleResult, Totals  # noqa: E402
from time_limit import TimeLimit  # noqa: E402


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.again:
        only_failed(options)
    totals = Totals()
    limit = TimeLimit(options.time_limit, totals)
    exclusions = Exclusions.read(ROOT / "docs" / "compatibility.md")
    if options.stock:
        # The same modules, but all of each: the excluded tests tell how ours differs.
        exclusions = exclusions.whole_modules()
    else:
        substitution.install()
    for name in selection.modules(options.modules):
        reason = exclusions.reason(name)
        if reason and not options.excluded:
            print(f"{name:<26} left out: {reason}", flush=True)
            continue
        try:
            module = selection.load(name)
        except unittest.SkipTest as why:
            print(f"{name:<26} skipped: {why}", flush=True)
            continue
        if not options.stock:
            substitution.prepare(module)
        result = ModuleResult(name, limit)
        chosen = unittest.TestSuite()
        for test in selection.tests(module, options.patterns):
            if bool(exclusions.reason(selection.short_name(test))) == options.excluded:
                chosen.addTest(test)
            else:
                result.excluded += 1
        chosen.run(result)
        totals.add(result)
        print(result.line(), flush=True)
    limit.stop()
    if not (options.modules or options.patterns):
        totals.failed += exclusions.report_unused()
    if options.report:
        Path(options.report).write_text(json.dumps(totals.as_dict(), indent=2) + "\n")
    print(totals.text(), flush=True)
    if limit.was_needed:
        # Python's own end would wait for what the test left behind.
        os._exit(1)
    return 1 if totals.failed else 0


def only_failed(options: argparse.Namespace) -> None:
    """What the report of the last run has as bad."""
    # A subtest has its parameters behind a space.
    bad = [name.split(" ")[0] for name in json.loads(Path(options.report).read_text())["bad"]]
    options.modules = sorted({name.split(".")[0] for name in bad})
    options.patterns = [f"*.{name}" for name in bad]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="test_events, ...: all if none is given")
    parser.add_argument("-k", dest="patterns", action="append", default=[], help="as unittest's -k")
    parser.add_argument("--stock", action="store_true", help="run on asyncio's own loop")
    parser.add_argument("--excluded", action="store_true", help="run only what is excluded")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one test")
    parser.add_argument("--report", help="write the counts and the names of failures as JSON")
    parser.add_argument("--again", action="store_true", help="only what --report has as bad")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
