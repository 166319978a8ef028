"""Source lines for code without a file, so that tracebacks show them: the code of `py:exec` and
`py:eval` (`erlang.snippets`), and the init code of loops.

Tracebacks, `inspect` and debuggers read lines from `linecache`. Each piece of code has its own file
name there, as long as any of its functions, classes or comprehensions exists. Code that defines
nothing is removed when it has run.
"""

from __future__ import annotations

import linecache
import os
import weakref
from collections.abc import Iterable, Iterator
from types import CodeType

#: By file name, so that the references live as long as the entry in `linecache`.
_watched: dict[str, list[weakref.ref[CodeType]]] = {}


def keep(name: str, source: str, codes: Iterable[CodeType]) -> None:
    """Make `linecache` find the lines of this code, which was compiled under this file name."""
    # Local names: when the interpreter ends, the globals may be gone first.
    lines, watched = linecache.cache, _watched
    left: list[None] = []

    def dropped(_: weakref.ref[CodeType]) -> None:
        # Two threads may drop the last two at once: `list.pop` is atomic.
        left.pop()
        if not left:
            lines.pop(name, None)
            watched.pop(name, None)

    references = [weakref.ref(each, dropped) for code in codes for each in _with_nested(code)]
    left.extend([None] * len(references))
    watched[name] = references
    # Without a modification time `linecache.checkcache` keeps the entry.
    lines[name] = (len(source), None, source.splitlines(True), name)


def put(file: str, source: str, first: int) -> None:
    """The same for lines of a file, from `first` on, that may not be on this machine."""
    linecache.checkcache(file)  # It may be newer than its last traceback.
    if os.path.exists(file):
        return
    # Other code of the same file has other lines.
    known = linecache.cache.get(file)
    lines = list(known[2]) if known and len(known) == 4 else []
    new = source.splitlines(True)
    lines.extend("\n" * (len(new) - len(lines)))
    lines[first - 1 : len(new)] = new[first - 1 :]
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def complete(error: SyntaxError, source: str) -> None:
    """Add the source line to `error`.

    Later stages of the compiler look for the line in the file, which does not exist.
    """
    lines = source.splitlines(True)
    if error.text is None and error.lineno is not None and 0 < error.lineno <= len(lines):
        error.text = lines[error.lineno - 1]
