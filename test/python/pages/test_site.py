"""Does `make site` find its pages? mkdocs and the examples are left out: see scripts/docs_site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([ROOT / "scripts" / "site", "--pages", folder], check=True)
    return folder / "pages"


def test_links_lead_to_pages_and_files(pages):
    broken = []
    for page in pages.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            # These are written by what is left out.
            generated = link.endswith("examples/index.md")
            if not (re.match(r"[a-z]+:", link) or generated or (page.parent / link).exists()):
                broken.append(f"{page.relative_to(pages)}: {link}")
    assert broken == []


def test_the_menu_has_every_page(pages):
    menu = (pages.parent / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"(?:- |: )(\S+\.md)$", menu, re.MULTILINE)
    generated = {"api/erlang/index.md", "api/elixir.md", "examples/index.md"}
    assert [name for name in named if name not in generated and not (pages / name).exists()] == []
    assert len(named) == len(set(named))
    assert {f"docs/{page.name}" for page in (pages / "docs").glob("*.md")} <= set(named)


def test_python_api_has_the_public_names(pages):
    page = (pages / "api/python/erlang.md").read_text(encoding="utf-8")
    assert "async def async_call(" in page
    headings = set(re.findall(r"^## (\w+)$", page, re.MULTILINE))
    erlang = sys.modules.get("erlang") or pytest.importorskip("erlang")
    assert {"Channel", "Mailbox", "call", "monitor", "spawn"} <= headings <= set(erlang.__all__)
