"""Runs every case on every loop, interleaved, and writes bench/README.md.

All loops run in this one node, so they meet the same machine in the same seconds. Ratios are
within a round; machines are noisy, the ratios less so.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
from collections.abc import Callable
from pathlib import Path

import erlang_loop
import uvloop
from cases import CASES

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
    "erlang_loop": erlang_loop.new_event_loop,
}
LESS_IS_BETTER = {"sleep_1ms"}


def measure(name: str, factory: Callable[[], asyncio.AbstractEventLoop], seconds: float) -> float:
    loop = factory()
    try:
        return loop.run_until_complete(CASES[name][1](seconds))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def times_better(name: str, ours: float, theirs: float) -> float:
    return theirs / ours if name in LESS_IS_BETTER else ours / theirs


def row(name: str, rounds: list[dict[str, float]]) -> str:
    medians = {loop: statistics.median(r[loop] for r in rounds) for loop in LOOPS}
    ratios = [
        statistics.median(times_better(name, r["erlang_loop"], r[other]) for r in rounds)
        for other in ("asyncio", "uvloop")
    ]
    cells = [name, CASES[name][0], *(f"{value:,.0f}" for value in medians.values())]
    return "| " + " | ".join([*cells, *(f"{ratio:.2f}" for ratio in ratios)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {name: [] for name in CASES}
    names = list(LOOPS)
    for number in range(options.rounds):
        for name in CASES:
            # Another loop begins in every round.
            order = names[number % len(names) :] + names[: number % len(names)]
            measured = {loop: measure(name, LOOPS[loop], options.seconds) for loop in order}
            results[name].append(measured)
    write(results, options)


def write(results: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> None:
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` ({options.rounds} rounds of {options.seconds} s a case): Python "
        f"{platform.python_version()}, uvloop {uvloop.__version__}, {platform.system()} "
        f"{platform.machine()}, {platform.release().split('-')[0]}.",
        "",
        "Medians; the last two columns are how many times better erlang_loop is, the median of the "
        "ratios within each round. All three loops run in the same node. The client of `tcp_echo` "
        "is written in Python and is as busy as the server: it hides part of the differences.",
        "",
        "| case | unit | asyncio | uvloop | erlang_loop | x asyncio | x uvloop |",
        "|---|---|---:|---:|---:|---:|---:|",
        *(row(name, rounds) for name, rounds in results.items()),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    Path(__file__).with_name("README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
