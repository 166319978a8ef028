"""The menu of the site: docs/README.md, section by section, with the titles of the pages."""

from __future__ import annotations

import re
from pathlib import Path

from docs_site.pages import ROOT

CONTENTS = ROOT / "docs" / "README.md"
#: Where mkdocs.yml leaves room for the sections.
ROOM = "  # docs/README.md, by docs_site/menu.py\n"
#: In the last part of the menu, which mkdocs.yml has.
ELSEWHERE = {"bench/README.md", "CONTRIBUTING.md"}


def write(to: Path) -> None:
    configuration = (ROOT / "scripts/docs_site/mkdocs.yml").read_text(encoding="utf-8")
    before, after = configuration.split(ROOM)
    to.write_text(before + "".join(lines()) + after, encoding="utf-8")


def lines() -> list[str]:
    found = []
    for title, pages in sections():
        found.append(f"  - {title}:\n")
        found += [f"      - {page}\n" for page in pages]
    return found


def sections() -> list[tuple[str, list[str]]]:
    """Each section with its pages. A page that several sections name is in the first of them.

    Links to a place within a page do not count.
    """
    seen = set(ELSEWHERE)
    found = []
    for section in CONTENTS.read_text(encoding="utf-8").split("\n## ")[1:]:
        title = section.split("\n", 1)[0]
        pages = []
        for link in re.findall(r"\]\(([^)#\s]+\.md)\)", section):
            page = str((CONTENTS.parent / link).resolve().relative_to(ROOT))
            if page not in seen:
                seen.add(page)
                pages.append(page)
        found.append((title, pages))
    return found
