"""The table of `make matrix`: does a run of some steps leave what is known of the others?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT

SCRIPT = ROOT / "scripts" / "matrix_table"
LINES = {
    "ct": "ct 540 passed 0 failed 10.0 s",
    "pytest": "pytest 1700 passed 2 failed 20.5 s 14 skipped",
}


@pytest.fixture
def run(tmp_path):
    """Notes a run of these steps on this tree; the row of the page after it."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n## Tried with\n\n## What follows\n")

    def run(steps: str, tree: str, forget: bool = False, again: bool = False) -> str:
        noted = tmp_path / "3.12.json"
        if forget:
            # On another machine, which has only the page.
            noted.unlink()
        log = tmp_path / "log"
        log.write_text("\n".join(LINES[step] for step in steps.split()) + "\n")
        words = ["note", str(noted), "3.12", "25.2.3", "3.12.1", str(log), steps, tree]
        words.append("again" if again else "")
        subprocess.run([python(), SCRIPT, *words], check=True)
        subprocess.run([python(), SCRIPT, "write", tmp_path, page], check=True)
        text = page.read_text()
        assert text.endswith("## What follows\n")
        return next(line for line in text.splitlines() if line.startswith("| 3.12 "))

    return run


def python() -> str:
    return str(Path(sys.prefix) / "bin" / "python3")


def test_all_steps(run):
    row = run("ct pytest", "0.1.0 a1b2c3d")
    expected = "540 / 0 / 0 | 1700 / 2 / 14 | not tried | 0.1.0 a1b2c3d |"
    assert row == f"| 3.12 | 25.2.3 | 3.12.1 | {expected}"


@pytest.mark.parametrize("forget", [False, True])
def test_one_step_keeps_the_results_of_others(run, forget):
    run("ct pytest", "0.1.0 a1b2c3d")
    row = run("pytest", "0.1.0 bbbbbbb", forget)
    assert "| 540 / 0 / 0 | 1700 / 2 / 14 | not tried |" in row
    assert row.endswith("| ct: 0.1.0 a1b2c3d; pytest: 0.1.0 bbbbbbb |")
    row = run("ct", "0.2.0 ccccccc")
    assert row.endswith("| ct: 0.2.0 ccccccc; pytest: 0.1.0 bbbbbbb |")


def test_tests_that_are_tried_again(run):
    run("ct pytest", "0.1.0 a1b2c3d")
    again = run("pytest", "0.1.0 bbbbbbb", again=True)
    assert "| 3400 / 2 / 28, 1700 of them when tried again |" in again
    expected = "ct: 0.1.0 a1b2c3d; pytest: 0.1.0 a1b2c3d, again on 0.1.0 bbbbbbb |"
    assert again.endswith(f"| {expected}")
    assert run("ct", "0.1.0 a1b2c3d", forget=True).endswith(f"| {expected}")
