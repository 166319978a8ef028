"""Instructions instead of seconds: the same in every run, whatever else the machine does.

core     operations of native/event_loop (benches/counted.rs), under valgrind's callgrind
in node  callbacks, timers, tasks and messages of ErlangEventLoop (counted.py), by single steps
         (steps.py)

Each is run twice, with one count and with another; the difference is what the operation itself
costs, without start and end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

from bench import steps
from bench.contenders import OURS, ROOT
from bench.counted import WORK

LIMIT = 1800
CORE_COUNT = 20_000
NODE_COUNT = 20


class NotCounted(Exception):  # noqa: N818
    """This machine cannot count; the text says why."""


def core() -> dict[str, float]:
    """Instructions for an operation of the core, by its name."""
    if shutil.which("valgrind") is None:
        raise NotCounted("valgrind is not installed")
    program = _core_program()
    names = _run([program]).split()

    def count(name: str, times: int) -> int:
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        return read_callgrind(_run([*words, program, name, str(times)], errors=True))

    return {name: _per_operation(lambda n, name=name: count(name, n), CORE_COUNT) for name in names}  # type: ignore[misc]


def in_node() -> dict[str, float]:
    """Instructions of the loop's thread for an operation, by its name; user mode only."""
    if sys.platform != "linux":
        raise NotCounted("single steps are taken on Linux only")
    program = [str(ROOT / "bin/erlang-loop"), "-m", "bench.counted"]

    def count(name: str, times: int) -> int:
        try:
            return steps.count([*program, name, str(times)])
        except OSError as reason:
            raise NotCounted(str(reason)) from None

    return {
        f"{OURS} {name}": _per_operation(lambda n, name=name: count(name, n), NODE_COUNT)  # type: ignore[misc]
        for name in WORK
    }


def _per_operation(count: Callable[[int], int], times: int) -> float:
    return (count(2 * times) - count(times)) / times


def _core_program() -> str:
    words = ("cargo", "bench", "--quiet", "--locked", "--package", "event_loop")
    output = _run([*words, "--bench", "counted", "--no-run", "--message-format=json"])
    for line in output.splitlines():
        if line.startswith("{"):
            message = json.loads(line)
            if message.get("executable") and message["target"]["name"] == "counted":
                return str(message["executable"])
    raise NotCounted("cargo built no program `counted`")


def read_callgrind(output: str) -> int:
    found = re.search(r"Collected\s*:\s*(\d+)", output)
    if found is None:
        raise NotCounted(f"valgrind counted nothing: {output.strip()[-200:]}")
    return int(found.group(1))


def _run(words: list[str], errors: bool = False) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotCounted(f"{words[0]} was not done after {LIMIT} s") from None
    if done.returncode != 0:
        raise NotCounted(f"{words[0]} failed: {done.stderr.strip()[-200:]}")
    return done.stderr if errors else done.stdout
