"""The native client, `bench-load`: built when first needed, run beside the loop under test.

Called by the cases, in the server's process; load/src/main.rs lists the modes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.registry import Budget, Sample, WrongReply

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "bench-load"

#: Options that a budget makes smaller.
COUNTS = ("connections", "idle", "busy")

#: A client that takes this many seconds longer than requested hangs.
PATIENCE = 30


def build() -> None:
    command = ("cargo", "build", "--quiet", "--release", "--locked", "--package", "bench_load")
    subprocess.run(command, cwd=ROOT, check=True)


def arguments(mode: str, address: str, budget: Budget, **options: object) -> list[str]:
    """The command line. Of short runs a third more is warming up."""
    words = [str(PROGRAM), mode, "--seconds", str(budget.seconds)]
    if address:
        words += ["--to", address]
    options.setdefault("warmup", min(0.2, budget.seconds / 3))
    options.setdefault("pid", os.getpid())
    for name, value in options.items():
        if name in COUNTS and isinstance(value, int) and value:
            words += [f"--{name}", str(budget.count(value))]
        elif value is True:
            words.append(f"--{name}")
        elif value is not False:
            words += [f"--{name}", str(value)]
    return words


def run(mode: str, address: str, budget: Budget, **options: object) -> Sample:
    """Runs it to its end. Blocks: for a thread beside the loop, or without a loop."""
    done = subprocess.run(
        arguments(mode, address, budget, **options),
        capture_output=True,
        text=True,
        timeout=budget.seconds + PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        raise WrongReply(done.stderr.strip() or f"bench-load ended with {done.returncode}")
    found = json.loads(done.stdout)
    return Sample(
        found["rate"],
        cpu_us=found.get("server_cpu_us"),
        p50_us=found["p50_us"],
        p99_us=found["p99_us"],
        more={"client_busy": found["client_busy"], "evenness": found["evenness"]},
    )


async def ask(mode: str, address: str, budget: Budget, **options: object) -> Sample:
    """Runs it while the loop serves."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: run(mode, address, budget, **options))


@contextlib.contextmanager
def bare_server(address: str) -> Iterator[tuple[str, int]]:
    """The echo server without a loop: its address and its process."""
    process = subprocess.Popen(
        (str(PROGRAM), "serve", "--at", address),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        yield address.replace(":0", f":{port}"), process.pid
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
