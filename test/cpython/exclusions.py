"""What is not run, and why: read from the tables in docs/compatibility.md.

A row has the test (`module`, `module.Class.*` or `module.Class.test`), the Python versions it
is excluded on and the reason. A row that matches nothing is reported: the table must not rot.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import selection

ROW = re.compile(r"^\| `(test_[^`]+)` \| ([^|]+) \| ([^|]+) \|$")
VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass
class Exclusion:
    pattern: str
    versions: str
    reason: str
    used: bool = field(default=False)

    def applies(self) -> bool:
        """`all`, `3.11`, `3.12+`, `3.14.10+` or `3.12 to 3.13`."""
        bounds = [tuple(map(int, found.split("."))) for found in VERSION.findall(self.versions)]
        if not bounds:
            return True
        first, last = bounds[0], bounds[-1]
        if sys.version_info[: len(first)] < first:
            return False
        return self.versions.endswith("+") or sys.version_info[: len(last)] <= last


class Exclusions:
    def __init__(self, rows: list[Exclusion]) -> None:
        self._rows = [row for row in rows if row.applies()]

    @classmethod
    def read(cls, page: Path) -> Exclusions:
        found = (ROW.match(line) for line in page.read_text().splitlines())
        rows = ([text.strip() for text in row.groups()] for row in found if row)
        return cls([Exclusion(*row) for row in rows])

    def whole_modules(self) -> Exclusions:
        return Exclusions([row for row in self._rows if "." not in row.pattern])

    def reason(self, name: str) -> str:
        """Why this test or module is excluded; empty if it is not."""
        for row in self._rows:
            if selection.matches(name, row.pattern):
                row.used = True
                return row.reason
        return ""

    def report_unused(self) -> int:
        unused = [row for row in self._rows if not row.used]
        for row in unused:
            print(f"docs/compatibility.md excludes {row.pattern}, which does not exist", flush=True)
        return len(unused)
