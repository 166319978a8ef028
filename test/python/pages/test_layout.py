"""Does test/README.md list every folder of tests and every suite, and nothing else?"""

from __future__ import annotations

import re

from command import ROOT

PAGE = (ROOT / "test" / "README.md").read_text(encoding="utf-8")


def test_folders():
    folders = sorted(
        {path.parent.name for path in (ROOT / "test" / "python").glob("*/test_*.py")},
    )
    assert sorted(re.findall(r"^\| `(\w+)/`", PAGE, re.MULTILINE)) == folders


def test_suites():
    suites = sorted(path.stem for path in (ROOT / "test").glob("*_SUITE.erl"))
    table = PAGE.split("\n## Common Test suites")[1]
    assert sorted(re.findall(r"`(\w+_SUITE)`", table)) == suites
