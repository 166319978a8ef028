"""Namespaces that Erlang has by reference: behind `py:namespace/1` and the functions beside it."""

from __future__ import annotations

import builtins
import itertools
import threading
import types
import weakref
from typing import Any

from .native import ObjectHandle, Pid


class Namespace(types.ModuleType):
    """A module without a file, not in `sys.modules`: it ends with its last reference."""

    __module__ = "erlang"


_creators: weakref.WeakKeyDictionary[Namespace, Pid] = weakref.WeakKeyDictionary()
#: Guards `_creators`.
_lock = threading.Lock()
_numbers = itertools.count(1)


def create(
    creator: Pid, name: str | None = None, copy: types.ModuleType | None = None
) -> Namespace:
    """A namespace; with `copy`, one with the names that this namespace or module has now."""
    space = Namespace(name or f"namespace_{next(_numbers)}")
    if copy is not None:
        vars(space).update(_content(_module(copy)))
    vars(space)["__builtins__"] = builtins
    with _lock:
        _creators[space] = creator
    return space


def names(space: types.ModuleType) -> list[str]:
    return sorted(_content(_module(space)))


def existing() -> list[tuple[ObjectHandle[Namespace], str, list[str], Pid]]:
    """All namespaces, with their names and the processes that created them."""
    with _lock:
        found = list(_creators.items())
    return [(ObjectHandle(space), space.__name__, names(space), pid) for space, pid in found]


def _content(space: types.ModuleType) -> dict[str, Any]:
    """Without what every module has, such as `__name__`."""
    # The copy is atomic: code may run in the namespace.
    content = vars(space).copy()
    return {name: content[name] for name in content if not _is_special(name)}


def _is_special(name: object) -> bool:
    return not isinstance(name, str) or (name.startswith("__") and name.endswith("__"))


def _module(space: object) -> types.ModuleType:
    if not isinstance(space, types.ModuleType):
        raise TypeError(f"a namespace or a module is needed, not a {type(space).__name__}")
    return space
