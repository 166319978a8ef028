"""What `py:attr/2` and similar functions do with an object that Erlang has by reference.

The argument is the object itself: references are converted like any other argument.
"""

from __future__ import annotations

from typing import Any


def value(obj: Any) -> Any:
    """Behind `py:value/1`: the result is converted like that of any call."""
    return obj


def attribute(obj: Any, path: str) -> Any:
    """The attribute at the end of a dotted path."""
    for name in path.split("."):
        obj = getattr(obj, name)
    return obj


def item(obj: Any, key: Any) -> Any:
    return obj[key]


def type_name(obj: Any) -> str:
    """As the `type` of an exception: `builtins.list`."""
    cls = type(obj)
    return f"{cls.__module__}.{cls.__qualname__}"
