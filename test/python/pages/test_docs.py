"""Does what README and docs show in Python run? Every block does, as a program of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from command import ROOT

COMMAND = ROOT / "bin" / "erlang-loop"
# A block that is not to be run says so: ```python no-run
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[object]:
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found.append(pytest.param(block.group(1), id=f"{page.name}:{line}"))
    return found


@pytest.mark.parametrize("program", blocks())
def test_block_runs(program: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [COMMAND, "-"],
        input=program,
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
