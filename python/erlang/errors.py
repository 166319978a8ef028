"""Errors between Erlang and Python."""

from __future__ import annotations

from typing import Any, NamedTuple


class ConversionError(ValueError):
    """A value cannot be converted. `path` is the position in it: `args[2]["x"]`."""

    __module__ = "erlang"

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class StackFrame(NamedTuple):
    """One call in the stacktrace of an Erlang exception."""

    module: str
    function: str
    arity: int
    file: str | None = None
    line: int | None = None


class Error(Exception):
    """An Erlang exception.

    `kind` is the class of the exception in Erlang: 'error', 'exit' or 'throw'. `reason` is any
    term, as a Python value, or as text if it cannot be converted. `stacktrace` begins with the
    innermost call.
    """

    __module__ = "erlang"

    def __init__(
        self, kind: str, reason: Any, stacktrace: object = None, text: str | None = None
    ) -> None:
        super().__init__(kind, reason, stacktrace, text)
        self.kind = kind
        self.reason = reason
        self.stacktrace = _frames(stacktrace)
        self._text = _with_exceptions(reason, 4) or text or _shown(reason)

    def __str__(self) -> str:
        return f"{self.kind}: {self._text}"


def _shown(reason: object) -> str:
    """An atom as its name."""
    return str(reason) if isinstance(reason, str) and type(reason) is not str else repr(reason)


def _with_exceptions(reason: object, depth: int) -> str | None:
    """Print a reason that contains Python exceptions as Erlang does, and these as Python does."""
    if isinstance(reason, dict) and {"type", "message", "traceback"} <= reason.keys():
        return f"{reason['type']}: {reason['message']}"
    if depth and isinstance(reason, tuple):
        parts = [_with_exceptions(part, depth - 1) for part in reason]
        if any(parts):
            texts = [text or str(part) for text, part in zip(parts, reason)]
            return "{" + ", ".join(texts) + "}"
    return None


def _frames(stacktrace: object) -> list[StackFrame]:
    if not isinstance(stacktrace, list):
        return []
    return [frame for frame in map(_frame, stacktrace) if frame is not None]


def _frame(entry: object) -> StackFrame | None:
    """Convert `{Module, Function, ArityOrArguments, Location}`; None for anything else."""
    if isinstance(entry, StackFrame):
        return entry
    if not (isinstance(entry, tuple) and len(entry) == 4):
        return None
    module, function, arity, location = entry
    if isinstance(arity, list):
        arity = len(arity)
    try:
        where = dict(location)
        file = where.get("file")
        if isinstance(file, list):
            file = "".join(map(chr, file))
        return StackFrame(str(module), str(function), arity, file, where.get("line"))
    except (TypeError, ValueError):
        return StackFrame(str(module), str(function), arity)
