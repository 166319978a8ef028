"""Collects the pages, has mkdocs make the site, and checks its links.

The argument is the folder, _build/site. With `--pages` the pages are only collected, without what
needs mkdocs, mix or a run of the examples: `make test` does that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from docs_site import check, erlang, examples, menu, pages, python
from docs_site.pages import ROOT


def main() -> None:
    folder = Path(next((name for name in sys.argv[1:] if name != "--pages"), ROOT / "_build/site"))
    to = folder / "pages"
    shutil.rmtree(to, ignore_errors=True)
    pages.collect(to)
    python.write(to / "api" / "python")
    menu.write(folder / "mkdocs.yml")
    if "--pages" in sys.argv:
        return
    erlang.write(to / "api" / "erlang")
    elixir(to / "api" / "elixir.md")
    examples.write(to / "examples")
    mkdocs = folder / "venv" / "bin" / "mkdocs"
    if not mkdocs.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip: list[str | Path] = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--requirement", ROOT / "requirements" / "site.txt"], check=True)
    subprocess.run(
        [mkdocs.resolve(), "build", "--quiet", "--strict", "--clean"], cwd=folder, check=True
    )
    wrong = check.broken(folder / "html")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{folder / 'html' / 'index.html'}: {len(list(to.rglob('*.md')))} pages, all links hold")


def elixir(to: Path) -> None:
    if not shutil.which("mix"):
        sys.exit("the site needs Elixir: install it (Debian: apt-get install elixir)")
    mix = ["mix", "run", "--no-start", "scripts/docs_site/elixir.exs"]
    shown = subprocess.run(mix, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    # mix says first what it compiles.
    to.write_text(shown[shown.index("# Elixir API") :], encoding="utf-8")


main()
