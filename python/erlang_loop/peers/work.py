"""One piece of work, as bytes: a function with its arguments, and its result or exception.

`PeerPoolExecutor` packs the work, Erlang carries it to a peer, which calls `run`.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any


class RemoteTraceback(Exception):  # noqa: N818 - not an error itself
    """The cause of an exception that was raised in a peer: its traceback there, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def pack(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Raises TypeError for a function that the peer could not find by its name."""
    if isinstance(function, FunctionType):
        name = f"{function.__module__}.{function.__qualname__}"
        if "<" in function.__qualname__ or function.__module__ == "__main__":
            raise TypeError(
                f"{name} has no name in a peer: give it a function on the top level of a module"
                " that the peer can import"
            )
    return pickle.dumps((function, args, kwargs), pickle.HIGHEST_PROTOCOL)


def run(work: bytes) -> bytes:
    """Called in the peer. Everything that goes wrong is the exception of this work."""
    try:
        function, args, kwargs = pickle.loads(work)
        return _packed(True, function(*args, **kwargs))
    except BaseException as error:
        return _failed(error)


def _failed(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        packed = _packed(False, (error, text))
        # Exceptions whose constructors want other arguments than they keep fail only here.
        pickle.loads(packed)
    except Exception:
        return _packed(False, (RuntimeError(f"{type(error).__qualname__}: {error}"), text))
    return packed


def _packed(succeeded: bool, value: object) -> bytes:
    return pickle.dumps((succeeded, value), pickle.HIGHEST_PROTOCOL)


def unpack(reply: bytes) -> Any:
    """Returns the result, or raises the exception."""
    succeeded, value = pickle.loads(reply)
    if succeeded:
        return value
    error, text = value
    raise error from RemoteTraceback(text)


def run_all(function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> list[Any]:
    """A chunk of `PeerPoolExecutor.map`."""
    return [function(*item) for item in items]
