"""Erlang for Python programs inside a node: its values as Python types, its functions, its
processes.

`docs/values.md` has the table of what becomes what, `docs/erlang_module.md` the rest.
"""

from .atom import Atom
from .calls import async_call, call, cast
from .errors import ConversionError, Error, StackFrame
from .messages import send
from .native import BitString, Fun, Pid, Port, Ref
from .native import ObjectHandle as Handle

__all__ = [
    "Atom",
    "BitString",
    "ConversionError",
    "Error",
    "Fun",
    "Handle",
    "Pid",
    "Port",
    "Ref",
    "StackFrame",
    "async_call",
    "call",
    "cast",
    "send",
]
