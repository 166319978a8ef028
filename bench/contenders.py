"""The contenders: how a loop is created, and the command that runs one sample of it.

ErlangEventLoop runs in a node, by bin/erlang-loop. The others run in the plain interpreter that
the node has linked: as their users run them.
`--in-node` runs them in a node, too, to separate the loop's cost from the VM's.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from pathlib import Path

from bench.registry import LOOPS, Budget, Case, Factory, Unavailable

ROOT = Path(__file__).resolve().parent.parent
OURS = "erlang_loop"
BARE = "bare"


def python() -> str:
    """The interpreter of .venv. Inside a node `sys.executable` is not it."""
    found = ROOT / ".venv" / "bin" / "python"
    return str(found) if found.exists() else sys.executable


def command(case: Case, contender: str, budget: Budget, in_node: bool = False) -> list[str]:
    """What prints the sample: see worker.py."""
    words = [case.name, contender, str(budget.seconds), str(budget.scale)]
    if case.kind == "erlang" and contender != BARE:
        return ["escript", str(ROOT / "bench/erlang/round_trips.escript"), *words]
    # A "named" case starts its own programs.
    inside = case.kind != "named" and (contender == OURS or (in_node and contender != BARE))
    program = str(ROOT / "bin/erlang-loop") if inside else python()
    return [program, "-m", "bench.worker", *words]


def factory(name: str) -> Factory:
    """What makes a loop of this kind, in this process."""
    if name == "asyncio":
        return asyncio.SelectorEventLoop
    if name not in LOOPS:
        raise ValueError(f"unknown loop {name}")
    try:
        module = importlib.import_module(name)
    except ImportError as problem:
        raise Unavailable(f"{name} cannot be imported: {problem}") from None
    made: Factory = module.new_event_loop
    return made


def version(name: str) -> str:
    """Of a loop that comes from a package; empty for what is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
