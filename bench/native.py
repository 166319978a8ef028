"""The core's own benchmarks, by criterion: native/event_loop/benches/core.rs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.contenders import ROOT

FOLDER = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "criterion"
#: Seconds; a build with whole-program optimisation is part of it.
LIMIT = 1800


def measure(seconds: float) -> dict[str, float]:
    """Nanoseconds for an operation, by its name; nothing, and a message on stderr, if it fails."""
    command = (
        "cargo",
        "bench",
        "--quiet",
        "--locked",
        "--package",
        "event_loop",
        "--bench",
        "core",
    )
    options = ("--", "--noplot", "--measurement-time", str(seconds), "--warm-up-time", "0.5")
    try:
        done = subprocess.run(
            (*command, *options),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print("bench: the core's benchmarks were not done in time", file=sys.stderr)
        return {}
    if done.returncode != 0:
        print(f"bench: the core's benchmarks failed: {done.stderr}", file=sys.stderr)
        return {}
    return read(FOLDER)


def read(folder: Path) -> dict[str, float]:
    """What criterion has left there."""
    found = {}
    for path in sorted(folder.glob("*/new/estimates.json")):
        found[path.parent.parent.name] = json.loads(path.read_text())["median"]["point_estimate"]
    return found
