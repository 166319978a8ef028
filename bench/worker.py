"""One sample, in a process of its own: CASE CONTENDER SECONDS SCALE.

Prints the sample as JSON behind a mark, or why there is none. rounds.py reads it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import bench.cases  # noqa: F401  fills the registry
from bench import conditions
from bench.contenders import BARE, factory
from bench.registry import CASES, Budget, Sample, Unavailable

MARK = "@bench "


def measure(name: str, contender: str, budget: Budget) -> Sample:
    """Runs the case here."""
    case = CASES[name]
    run = cast(Any, case.run)
    sample: Sample
    if contender == BARE:
        if case.bare is None:
            raise Unavailable("there is no such thing without a loop")
        sample = case.bare(budget)
    elif case.kind == "named":
        sample = run(contender, budget)
    elif case.kind == "factory":
        sample = run(factory(contender), budget)
    else:
        loop = factory(contender)()
        asyncio.set_event_loop(loop)
        try:
            sample = loop.run_until_complete(run(loop, budget))
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
    return sample


def main(name: str, contender: str, seconds: str, scale: str) -> None:
    conditions.prepare()
    try:
        sample = measure(name, contender, Budget(float(seconds), float(scale)))
        reply: dict[str, object] = {"sample": sample.as_json()}
    except Unavailable as reason:
        reply = {"unavailable": str(reason)}
    except Exception as problem:
        reply = {"failed": f"{type(problem).__name__}: {problem}"}
    print(MARK + json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
