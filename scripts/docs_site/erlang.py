"""The API pages of the Erlang modules: edoc's pages, in the site, so that its search finds them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from docs_site.pages import ROOT


def modules() -> list[str]:
    """What programs call: modules with a function that the pages mention. `make docs` has all."""
    text = "".join(
        page.read_text(encoding="utf-8")
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        if page.name != "architecture.md"
    )
    return [
        path.stem
        for path in sorted((ROOT / "erl_src").glob("*.erl"))
        if re.search(rf"\b{path.stem}:\w+[/(]", text)
    ]


MODULES = modules()


def write(to: Path) -> None:
    subprocess.run(["rebar3", "edoc"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    to.mkdir(parents=True)
    rows = []
    for module in MODULES:
        page = (ROOT / "_build" / "doc" / f"{module}.html").read_text(encoding="utf-8")
        body = page.split("</h1>", 1)[1].rsplit("<hr>", 1)[0]
        body = re.sub(r'href="([\w-]+)\.html(#[^"]*)?"', place, body)
        # A blank line would end the block of HTML.
        body = re.sub(r"\n\s*\n", "\n", body)
        # edoc's names of anchors; the site's heading comes from Markdown.
        (to / f"{module}.md").write_text(
            f"# {module}\n\n<div style='overflow-x: auto'>{body}</div>\n", encoding="utf-8"
        )
        summary = re.search(r'name="description".*?<p>(.*?)(?:\.\s|</p>)', body, re.DOTALL)
        about = flat(summary[1].rstrip(".")) if summary else ""
        rows.append(f"| [{module}]({module}.md) | {about} |")
    index = "# Erlang API\n\n| module | what it does |\n|---|---|\n" + "\n".join(rows) + "\n"
    (to / "index.md").write_text(index, encoding="utf-8")


def place(link: re.Match[str]) -> str:
    """A link to a module that has no page here stays without a target."""
    return link[0] if link[1] in MODULES else 'class="internal"'


def flat(html: str) -> str:
    text = re.sub(r"<[^>]+>", "", html)
    return " ".join(text.split()).replace("|", "\\|")
