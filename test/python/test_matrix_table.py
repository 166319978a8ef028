"""The table of `make matrix`: does a run of some steps leave what is known of the others?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "matrix_table"
LINES = {
    "ct": "ct 540 passed 0 failed 10.0 s",
    "pytest": "pytest 1700 passed 2 failed 20.5 s 14 skipped",
}


@pytest.fixture
def run(tmp_path):
    """Notes a run of these steps on this tree; the row of the page after it."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n## Tried with\n\n## What follows\n")

    def run(steps: str, tree: str, forget: bool = False) -> str:
        noted = tmp_path / "3.12.json"
        if forget:
            # On another machine, which has only the page.
            noted.unlink()
        log = tmp_path / "log"
        log.write_text("\n".join(LINES[step] for step in steps.split()) + "\n")
        words = ["note", str(noted), "3.12", "25.2.3", "3.12.1", str(log), steps, tree, ""]
        subprocess.run([python(), SCRIPT, *words], check=True)
        subprocess.run([python(), SCRIPT, "write", tmp_path, page], check=True)
        text = page.read_text()
        assert text.endswith("## What follows\n")
        return next(line for line in text.splitlines() if line.startswith("| 3.12 "))

    return run


def python() -> str:
    return str(Path(sys.prefix) / "bin" / "python3")


def test_all_steps(run):
    row = run("ct pytest", "A tree; with | signs: all of them")
    expected = "540 / 0 / 0 | 1700 / 2 / 14 | not tried | A tree; with \\| signs: all of them |"
    assert row == f"| 3.12 | 25.2.3 | 3.12.1 | {expected}"


@pytest.mark.parametrize("forget", [False, True])
def test_one_step_leaves_the_others(run, forget):
    run("ct pytest", "First; of both")
    row = run("pytest", "Second: of one", forget)
    assert "| 540 / 0 / 0 | 1700 / 2 / 14 | not tried |" in row
    assert row.endswith("| ct: First; of both; pytest: Second: of one |")
    row = run("ct", "Third", forget)
    assert row.endswith("| ct: Third; pytest: Second: of one |")
