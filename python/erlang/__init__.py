"""Erlang for Python programs inside a node: its values as Python types.

`docs/values.md` has the table of what becomes what.
"""

from .atom import Atom
from .errors import ConversionError, Error, StackFrame
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
]
