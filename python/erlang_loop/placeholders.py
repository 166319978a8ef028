"""Objects of the program in reports: a `repr()` that raises must not hide what is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_V = TypeVar("_V")


def shown(value: object) -> str:
    """`repr(value)`, or a placeholder if that raises."""
    return named(repr, value)


def named(name: Callable[[_V], str], value: _V) -> str:
    """`name(value)`, or a placeholder if that raises."""
    try:
        return name(value)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _placeholder(value, error)


def showable(value: Any) -> Any:
    """`value`, or an object with a placeholder as its `repr()` if that of `value` raises."""
    try:
        repr(value)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _Text(_placeholder(value, error))
    return value


class _Text:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _placeholder(value: object, error: BaseException) -> str:
    return f"{object.__repr__(value)[:-1]}, whose repr() raised {type(error).__name__}>"
