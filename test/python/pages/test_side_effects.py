"""Does docs/side-effects.md name all that can be counted: processes, Python modules, threads?"""

from __future__ import annotations

import re

import pytest
from command import ERLANG_LOOP, ROOT, run

PAGE = (ROOT / "docs" / "side-effects.md").read_text(encoding="utf-8")
NATIVE = ROOT / "native" / "py_nif" / "src"


def row(beginning: str) -> str:
    (found,) = [line for line in PAGE.splitlines() if line.startswith(f"| {beginning}")]
    return found


def names(text: str) -> list[str]:
    return re.findall(r"`([\w.-]+)`", text)


def test_registered_names():
    application = (ROOT / "erl_src" / "erlang_loop.app.src").read_text(encoding="utf-8")
    registered = re.search(r"\{registered, \[([^]]*)\]\}", application)
    assert registered
    assert names(row("Registered names:").split("|")[1]) == re.findall(r"\w+", registered[1])


def test_python_modules():
    importable = row("Modules: `erlang`").split(" can be imported")[0]
    packages = [path.parent.name for path in (ROOT / "python").glob("*/__init__.py")]
    modules = [path.stem for path in (ROOT / "python").glob("*.py")]
    assert names(importable) == sorted([*packages, *modules, "py_event_loop"])


@pytest.mark.ours
def test_modules_that_are_there_from_the_start():
    ended = run(ERLANG_LOOP, "-c", "import sys; print(*sys.modules)")
    loaded = [name for name in ended.out.split() if re.match(r"erlang|py_event_loop", name)]
    said = row("Modules: `erlang`").split(" can be imported. ")[1].split(" are in ")[0]
    assert sorted(loaded) == names(said)


def test_threads():
    started = row("Threads are started:")
    sources = "".join(path.read_text(encoding="utf-8") for path in NATIVE.rglob("*.rs"))
    found = {name.replace("{}", "N") for name in re.findall(r'[^c]"(python-[\w{}-]+)"', sources)}
    assert found
    assert found - set(names(started)) == set()
