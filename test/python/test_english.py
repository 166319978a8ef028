"""Do pages and messages keep to the words that CONTRIBUTING.md asks for?

Only words and phrases that are always wrong here are in the list: nothing that needs a reader.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import ROOT

#: Matched as whole words, whatever their case. What to write instead is in CONTRIBUTING.md.
UNWANTED = [
    r"whoever",
    r"for ever",
    r"anew",
    r"in vain",
    r"nobody",
    r"somebody",
    r"mend(s|ed|ing)?",
    r"(is|are|was|were|be|been|being) told",
    r"(hear|hears|heard|hearing) (of|about|nothing)",
    r"lies down",
    r"gets up",
    r"dress(es|ed)?",
    r"nap(s|ped|ping)?",
    r"as ever",
    r"time-outs?",
    r"(is|are|was|were) no (bytes|UTF-8|text|list|number|integer|loop|string|coroutine)",
    r"(gave|gives|give|giving|given) (it|them|him) up",
    r"so many (milliseconds|seconds|threads|calls|records)",
    r"(somebody|anybody|nobody|everybody)('s)?",
    r"without end",
    r"who (wait|waits|asks|asked|waited)",
    r"unless given",
    r"looks after",
    r"(has|have) (it|them) (called|read|taken|made)",
    r"a word on",
    r"of its own accord",
    r"under way",
    r"its kin",
    r"all the same",
    r"(has|have|had) come about",
    r"(is|are|was|were) answered",
    r"in one go",
    r"that there (is|are) not",
    r"(hold|holds|holding|held) (it |them |others )?up",
    r"lets? go of",
    r"(give|gives|giving|gave) up",
    r"(is|are|was|were) given up",
    r"to and fro",
    r"in its stead",
    r"answers? (of|from|to) (a |the )?(call|calls|function|functions|question|questions)",
]
WORDS = re.compile(rf"\b({'|'.join(UNWANTED)})\b", re.IGNORECASE)

PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "bench" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
#: Names of tests, files and other code; links.
NOT_PROSE = re.compile(r"^```(?s:.*?)^```$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE)


def unwanted(text: str) -> list[tuple[int, str]]:
    """The line and the words of each find."""
    return [(text.count("\n", 0, found.start()) + 1, found[0]) for found in WORDS.finditer(text)]


def prose(page: Path) -> str:
    """The text without code, its lines as they were."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    return NOT_PROSE.sub(blank, page.read_text(encoding="utf-8"))


#: Programs and tests whose comments and messages are checked, too.
SOURCES = sorted(
    path
    for folder in ("bench", "elixir", "erl_src", "examples", "native", "python", "test")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".erl", ".escript", ".ex", ".exs", ".py", ".pyi", ".rs", ".src")
    # It lists the words.
    and path != Path(__file__)
)
#: The name of a user on Unix.
UNIX_USER = '"nobody"'
#: Comments and texts of Rust, not its names.
RUST = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"')


def text(path: Path) -> str:
    """What is to be checked of a program."""
    content = path.read_text(encoding="utf-8").replace(UNIX_USER, "")
    return "\n".join(RUST.findall(content)) if path.suffix == ".rs" else content


#: The beginning of a function, of a test of Elixir, or of one of a table of tests.
DEFINITION = re.compile(r"^ *(?:async )?(?:def |(?:pub )?fn |)([a-z]\w*)\(", re.MULTILINE)


def names(path: Path) -> str:
    """The names of a program's functions, word by word: one name per line."""
    return "\n".join(
        name.replace("_", " ") for name in DEFINITION.findall(path.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sources(path):
    assert unwanted(text(path)) == []
    assert [words for _, words in unwanted(names(path))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page):
    assert unwanted(prose(page)) == []
