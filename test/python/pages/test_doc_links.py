"""Do the links of the pages lead somewhere, and is what they name there?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import ROOT

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(?:#[^)]*)?\)")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def links(page: Path) -> list[tuple[str, Path]]:
    """The text and the file of each link to a file."""
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [
        (text, (page.parent / target).resolve())
        for text, target in found
        if not re.match(r"[a-z]+:", target)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    missing = [f"[{text}] {target}" for text, target in links(page) if not target.exists()]
    assert missing == []


def test_what_is_named_is_there():
    """A link whose text is a name in code points to the file that has it."""
    page = ROOT / "docs" / "event-loops.md"
    names = [
        (text.strip("`"), target)
        for text, target in links(page)
        if re.fullmatch(r"`\w+`", text) and target.suffix != ".md"
    ]
    assert len(names) > 80
    defined = r"(\b(def|class|fn|struct|enum)\s+|^-module\(|^){}\b"
    missing = [
        f"{name} in {target}"
        for name, target in names
        if not re.search(defined.format(name), target.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_page_is_in_the_table_of_contents():
    contents = ROOT / "docs" / "README.md"
    linked = {target for _, target in links(contents)}
    missing = [page for page in (ROOT / "docs").rglob("*.md") if page not in linked]
    assert missing == [contents]
