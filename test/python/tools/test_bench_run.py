"""Does `bench/run` run? Some cases with all their contenders, tiny, and what it prints."""

from __future__ import annotations

import subprocess
import sys

import pytest
from command import PATIENCE, ROOT, environment

from bench import baseline
from bench.baseline import Baseline
from bench.registry import LOOPS

TINY = ("--rounds", "1", "--seconds", "0.01", "--scale", "0.01")


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def printed() -> str:
    cases = (
        "call_soon_chain",
        "front_end_c1",
        "asgi_plain",
        "call_1",
        "after_idle",
        "cast",
        "loop_end",
    )
    only = [word for case in (*cases, "stream") for word in ("--only", case)]
    done = bench(*TINY, *only)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(printed: str, start: str) -> list[str]:
    row = next(line for line in printed.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_loops(printed):
    head = cells(printed, "case | unit | asyncio")
    found = dict(zip(head, cells(printed, "call_soon_chain | callbacks/s")))
    for name in LOOPS:
        # The others are there in `make bench`, but need not be here.
        missing = found[name] == "n/a" and name not in ("asyncio", "erlang_loop")
        assert missing or found[name][0].isdigit(), f"{name}: {found[name]}"


def test_front_ends(printed):
    head = cells(printed, "case | epoll_callbacks")
    found = dict(zip(head, cells(printed, "Echo of 1 KiB, 1 connection.")))
    for name in set(head) - {"case", "node"}:
        assert found[name][0].isdigit(), f"{name}: {found[name]}"


def test_servers(printed):
    head = cells(printed, "case | erlang_loop.asgi")
    found = dict(zip(head, cells(printed, "1 KiB from a plain ASGI application")))
    assert found["erlang_loop.asgi"][0].isdigit()
    # The others are there in `make bench`, but need not be here.
    for name in set(head) - {"case"}:
        assert found[name] == "n/a" or found[name][0].isdigit(), f"{name}: {found[name]}"


@pytest.mark.parametrize("name", ["call_1", "after_idle", "cast", "loop_end"])
def test_erlang(printed, name):
    assert cells(printed, name)[3][0].isdigit()


def test_what_the_machine_allows(printed):
    assert cells(printed, "after_idle")[4][0].isdigit()


def test_partial_run_leaves_the_page_alone(printed):
    page = (ROOT / "bench" / "README.md").read_text()
    assert "written:" not in printed
    assert "--scale 0.01" in printed
    assert "--scale 0.01" not in page


@pytest.mark.parametrize(("times_better", "code"), [(1e-6, 0), (1e6, 1)])
def test_check(tmp_path, times_better, code):
    """Against a baseline that asks for little, and against one that is out of reach."""
    path = tmp_path / "baseline.json"
    ratios = {"any": {"task_switch": {"asyncio": times_better}}}
    # Of another compiler, so that no instructions are counted: that takes minutes.
    baseline.write(Baseline(ratios, {}, compiler="another one"), path)
    loops = ("--loops", "asyncio,erlang_loop")
    done = bench("check", *TINY, "--only", "task_switch", *loops, "--baseline", str(path))
    assert done.returncode == code, done.stderr
    assert ("LOST  task_switch" in done.stdout) == bool(code)
    assert "instructions are not compared" in done.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--only", "no_such_case"), "no case is named no_such_case"),
        (("--loops", "asyncio,twisted"), "no such contender: twisted"),
        (("fly",), "invalid choice"),
        (("check", "--baseline", "/no/such/file"), "there is no /no/such/file"),
    ],
)
def test_mistakes(words, complaint):
    done = bench(*TINY, *words)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_list():
    done = bench("list")
    assert "call_soon_chain" in done.stdout
