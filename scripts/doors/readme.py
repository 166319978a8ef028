"""The commands and programs of README: the scripts run these and no others."""

from __future__ import annotations

import re

from doors.places import ROOT

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(section: str) -> list[str]:
    """The text of each block below a heading of README."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [block for _language, block in BLOCK.findall(text)]


def at(block: str, place: object) -> str:
    """The block with the real place of this project."""
    return block.replace("/path/to/erlang_loop", str(place))
