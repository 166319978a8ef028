"""Notes mistakes that only Python notices, for `py_lint`: what asyncio logs, with its line.

An exception that was never retrieved arrives at a loop's exception handler, and a coroutine that
was never awaited as a warning, which this module sees in `warnings` before it is shown. The log
and the warning stay as they are.
"""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from types import TracebackType
from typing import Any

import erlang

#: How often each place was noted. Further places are left out.
_counts: dict[tuple[str, str, str, int], int] = {}
_MOST_PLACES = 1000

_installed: list[bool] = []
_NEVER_AWAITED = re.compile(r"coroutine '(.*)' was never awaited")


def exception(context: dict[str, Any]) -> None:
    """A loop's exception handler is called with this."""
    error = context.get("exception")
    if error is None or not str(context.get("message")).endswith("exception was never retrieved"):
        return
    file, line, function = _raised_at(error.__traceback__)
    _note("never_retrieved", type(error).__qualname__, file, line, function)


def install() -> None:
    """Called once, with the first loop."""
    shown = getattr(warnings, "_showwarnmsg", None)
    if _installed or shown is None:
        return
    _installed.append(True)

    def show(message: warnings.WarningMessage) -> None:
        _warned(message)
        shown(message)

    warnings._showwarnmsg = show  # type: ignore[attr-defined]


def _warned(message: warnings.WarningMessage) -> None:
    if message.category is not RuntimeWarning:
        return
    found = _NEVER_AWAITED.match(str(message.message))
    if found is not None:
        # The line at which the coroutine was collected: mostly the one that forgot to await it.
        _note("never_awaited", found[1], message.filename, message.lineno, "")


def _raised_at(traceback: TracebackType | None) -> tuple[str, int, str]:
    file, line, function = "", 0, ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file, line, function = code.co_filename, traceback.tb_lineno, code.co_qualname
        traceback = traceback.tb_next
    return file, line, function


def _note(kind: str, name: str, file: str, line: int, function: str) -> None:
    place = (kind, name, file, line)
    if place not in _counts and len(_counts) >= _MOST_PLACES:
        return
    count = _counts[place] = _counts.get(place, 0) + 1
    # Of a mistake that is made all the time, the first, second, fourth, eighth ... is sent.
    if count & (count - 1) or sys.is_finalizing():
        return
    # The application is not running: no process looks at this.
    with contextlib.suppress(RuntimeError):
        note = [kind, _text(name), _text(file), line, _text(function), count]
        erlang.cast("py_lint", "noted", note)


def _text(name: str) -> str:
    """Names may have surrogates, which do not cross."""
    return name.encode("utf-8", "backslashreplace").decode()
