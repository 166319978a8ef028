"""Do docs/architecture.md and "Your first change" name only files and functions that exist?

A path may begin anywhere in the tree and leaves out `src`: `loops/posts.rs` is
native/py_nif/src/loops/posts.rs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FIRST_CHANGE = CONTRIBUTING.split("\n## Your first change\n")[1].split("\n## ")[0]
FILES = [
    path
    for folder in ("erl_src", "native", "python", "test")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".erl", ".rs", ".py", ".pyi") or path.name == "build"
]
TEXTS = {path: path.read_text(encoding="utf-8") for path in FILES}

PATH = r"[\w/.]*(?:/|\.(?:rs|py|erl))"
#: All `code` of the page that is on one line.
CODE = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
PATHS = [code for code in CODE if re.fullmatch(PATH, code)]
FUNCTIONS = [code for code in CODE if re.fullmatch(r"(?:\w+:)?\w+/\d+", code)]
NAMES = [code for code in CODE if code not in PATHS and code not in FUNCTIONS]
#: `file` (`name`), `file` `name`, `file`, `name` and `name` in `file`.
IN_FILE = [
    *re.findall(rf"`({PATH})`[ (,]+`(\w+)`", PAGE + FIRST_CHANGE),
    *((path, name) for name, path in re.findall(rf"`(\w+)` in `({PATH})`", PAGE)),
]


def without_src(path: Path) -> str:
    return "/" + "/".join(part for part in path.relative_to(ROOT).parts if part != "src")


def named(path: str) -> list[Path]:
    """The files that a path of the page may mean; those in a folder if it is one."""
    if path.endswith("/"):
        return [file for file in FILES if f"/{path}" in without_src(file)]
    return [file for file in FILES if without_src(file).endswith(f"/{path}")]


def has_word(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


def test_page_is_read():
    assert len(PATHS) > 40
    assert len(FUNCTIONS) > 5
    assert len(NAMES) > 20
    assert len(IN_FILE) > 5


@pytest.mark.parametrize("path", PATHS)
def test_path_exists(path):
    assert named(path)


@pytest.mark.parametrize(("path", "name"), IN_FILE)
def test_name_is_in_its_file(path, name):
    assert any(has_word(TEXTS[file], name) for file in named(path))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_is_exported(function):
    module, _, name = function.rpartition(":")
    ours = [path for path in FILES if path.suffix == ".erl" and module in ("", path.stem)]
    if ours:
        assert any(has_word(TEXTS[path], name) for path in ours)
    else:
        # A function of OTP: that it is called.
        call = function.partition("/")[0]
        assert any(has_word(text, call) for text in TEXTS.values())


@pytest.mark.parametrize("code", NAMES)
def test_words_of_code_are_in_the_source(code):
    missing = [
        word
        for word in re.findall(r"[A-Za-z_]\w*", code)
        if not any(has_word(text, word) for text in TEXTS.values())
    ]
    assert missing == []


def test_unsafe_code_is_where_the_page_says():
    section = PAGE.split("\n## Unsafe code\n")[1].split("\n## ")[0]
    places = [file for path in re.findall(rf"`({PATH})`", section) for file in named(path)]
    unsafe = [
        path for path in FILES if path.suffix == ".rs" and "allow(unsafe_code)" in TEXTS[path]
    ]
    assert unsafe
    assert [without_src(path) for path in unsafe if path not in places] == []
