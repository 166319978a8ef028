"""The pages as they are in the source, with links that work in the site."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
ITEM = re.compile(r"\s*([-*]|\d+\.) ")


def collect(to: Path) -> None:
    found = [ROOT / name for name in PAGES]
    found += sorted((ROOT / "docs").rglob("*.md"))
    found += [ROOT / "bench" / "README.md", ROOT / "test" / "README.md"]
    pages = set(found)
    for page in found:
        target = to / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        target.write_text(for_python_markdown(with_links(text, page, pages, to)), encoding="utf-8")


def with_links(text: str, page: Path, pages: set[Path], to: Path) -> str:
    return LINK.sub(lambda link: linked(link, page, pages, to), text)


def linked(link: re.Match[str], page: Path, pages: set[Path], to: Path) -> str:
    """The link, in the site: to a page, a picture, or the text of a source file."""
    address, anchor = link[1], link[2] or ""
    if re.match(r"[a-z]+:", address):
        return link[0]
    path = Path(os.path.normpath(page.parent / address))
    if path in pages:
        return link[0]
    if path.is_dir():
        # Only examples/ is linked, which has a page of its own.
        return os.path.relpath(ROOT / "examples" / "index.md", page.parent)
    name = path.relative_to(ROOT)
    if path.suffix not in (".svg", ".png"):
        # Browsers show it, and do not run or save it.
        name = name.with_name(name.name + ".txt")
        anchor = ""
    (to / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, to / name)
    return os.path.relpath(ROOT / name, page.parent) + anchor


def for_python_markdown(text: str) -> str:
    """Python's Markdown wants an empty line before a list, and one word after a fence."""
    lines: list[str] = []
    fenced = False
    for read in text.splitlines():
        line = read
        if line.lstrip().startswith("```"):
            fenced = not fenced
            # "erlang no-run": the second word is for the tests.
            line = re.sub(r"(```\w*) .*", r"\1", line)
        starts = not fenced and ITEM.match(line)
        if starts and lines and lines[-1].strip() and not in_list(lines):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def in_list(lines: list[str]) -> bool:
    """Do the last lines, up to an empty one, begin with an item?"""
    for line in reversed(lines):
        if not line.strip():
            return False
        if ITEM.match(line):
            return True
    return False
