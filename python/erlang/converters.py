"""Encoders and decoders of the program: what its own classes are in Erlang, and what comes back.

`native/py_nif/src/convert/converters.rs` calls them during conversions.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .atom import Atom
from .native import Pid, Ref, _set_decoder, _set_encoder

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Frequent types, for which the conversion does not look for an encoder.
_PLAIN = (str, int, bool, float, list, tuple, dict, bytes, type(None), Atom, Pid, Ref)
#: Tuples with these tags are values (`docs/values.md`).
_TAGS = (
    "bytes",
    "complex",
    "date",
    "datetime",
    "decimal",
    "fraction",
    "frozenset",
    "ndarray",
    "set",
    "time",
    "timedelta",
    "uuid",
    "view",
)

#: The registered functions: by the id of the class (which `_set_encoder` keeps alive), or by tag.
_encoders: dict[int, Callable[..., Any]] = {}
_decoders: dict[str, Callable[..., Any]] = {}
#: Guards both, and that they agree with the native registry.
_lock = threading.Lock()


def encoder(cls: type) -> Callable[[_Function], _Function]:
    """Decorate the function that returns what is sent to Erlang for an instance of `cls`.

    Subclasses need their own. The result is converted like any value, so it may contain objects
    with encoders. A class has one encoder: `ValueError`.
    """
    if not isinstance(cls, type):
        raise TypeError(f"an encoder is for a class, not for {cls!r}")
    if cls in _PLAIN:
        raise ValueError(f"{cls.__qualname__} has a form in Erlang that cannot be changed")

    def register(function: _Function) -> _Function:
        with _lock:
            _check(function, f"{cls.__qualname__} has an encoder", _encoders.get(id(cls)))
            _set_encoder(cls, function)
            _encoders[id(cls)] = function
        return function

    return register


def decoder(tag: str) -> Callable[[_Function], _Function]:
    """Decorate the function that returns the object for a tuple `{tag, ...}` from Erlang.

    It is called with the other elements of the tuple. For structs of Elixir the tag is the name of
    the module, `"Elixir.MyApp.Order"`, and the fields are keyword arguments. A tag has one decoder:
    `ValueError`.
    """
    if not isinstance(tag, str):
        raise TypeError(f"the tag of a decoder is a str, not {tag!r}")
    if tag in _TAGS:
        raise ValueError(f"tuples with the tag {str(tag)!r} have a meaning that cannot be changed")

    def register(function: _Function) -> _Function:
        with _lock:
            _check(function, f"the tag {str(tag)!r} has a decoder", _decoders.get(tag))
            _set_decoder(Atom(tag), function)
            _decoders[str(tag)] = function
        return function

    return register


def remove_encoder(cls: type) -> None:
    """Remove the encoder of `cls`: `LookupError` if it has none."""
    with _lock:
        if _encoders.pop(id(cls), None) is None:
            raise LookupError(f"{cls!r} has no encoder")
        _set_encoder(cls, None)


def remove_decoder(tag: str) -> None:
    """Remove the decoder of `tag`: `LookupError` if it has none."""
    with _lock:
        if _decoders.pop(tag, None) is None:
            raise LookupError(f"the tag {str(tag)!r} has no decoder")
        _set_decoder(Atom(tag), None)


def _check(function: object, taken: str, other: object) -> None:
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    if inspect.iscoroutinefunction(function):
        raise TypeError("a coroutine function cannot be one: a value is converted at once")
    # A module that is loaded again registers its functions again.
    if other is not None and _name(other) != _name(function):
        raise ValueError(f"{taken} already: {'.'.join(_name(other))}")


def _name(function: object) -> tuple[str, str]:
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
