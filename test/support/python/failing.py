"""Exceptions of every shape, for py_error_SUITE, and how Python itself prints them."""

from __future__ import annotations

import re
import traceback


def plain() -> None:
    raise ValueError("no value")


def without_text() -> None:
    raise KeyError


def of_two_lines() -> None:
    raise RuntimeError("one\ntwo")


def with_cause() -> None:
    try:
        plain()
    except ValueError as error:
        raise TypeError("because of that") from error


def with_context() -> None:
    try:
        with_cause()
    except TypeError:
        raise LookupError("meanwhile")  # noqa: B904 - the context is what this is for


def without_context() -> None:
    try:
        plain()
    except ValueError:
        raise LookupError("nothing else") from None


def with_notes() -> None:
    error = ValueError("noted")
    error.add_note("first note")
    error.add_note("second\nnote")
    raise error


def unicode_text() -> None:
    raise ValueError("ä € 𝄞")


def caught(function: str) -> BaseException:
    try:
        globals()[function]()
    except BaseException as error:
        return error
    raise AssertionError


def group() -> None:
    raise ExceptionGroup("several", [caught("plain"), KeyError("x")])


def group_in_group() -> None:
    inner = [caught("group"), caught("with_cause"), ValueError(1)]
    try:
        raise ExceptionGroup("outer", inner)
    except ExceptionGroup as error:
        raise RuntimeError("after the group") from error


def group_at_the_end() -> None:
    raise ExceptionGroup("outer", [ValueError(1), caught("group")])


def names() -> list[str]:
    return [
        *["plain", "without_text", "of_two_lines", "with_cause", "with_context"],
        *["without_context", "with_notes", "unicode_text"],
        *["group", "group_in_group", "group_at_the_end"],
    ]


def printed(function: str) -> str:
    """As Python prints it when Erlang calls `function`: without this frame, and without marks."""
    try:
        globals()[function]()
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # Which part of a line failed: `    ~~^~~`.
    return re.sub(r"^[ |]*[~^]+\n", "", text, flags=re.MULTILINE)
