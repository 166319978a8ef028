"""What the native library has for this package.

It is `erlang_loop._native`, here under its other name: importing it by that one would import
`erlang_loop` and with it asyncio, which a program that only converts values may not need.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from erlang_loop._native import (
        BitString,
        Fun,
        Mailbox,
        ObjectHandle,
        Pid,
        Port,
        Question,
        Ref,
        _ask,
        _ask_fun,
        _atom,
        _call,
        _cast,
        _send,
    )
else:
    try:
        from py_event_loop import (
            BitString,
            Fun,
            Mailbox,
            ObjectHandle,
            Pid,
            Port,
            Question,
            Ref,
            _ask,
            _ask_fun,
            _atom,
            _call,
            _cast,
            _send,
        )
    except ImportError:
        raise ImportError(
            "erlang works inside an Erlang node: run your program with `bin/erlang-loop "
            "program.py`, or start the erlang_loop application in your own node"
        ) from None

__all__ = [
    "BitString",
    "Fun",
    "Mailbox",
    "ObjectHandle",
    "Pid",
    "Port",
    "Question",
    "Ref",
    "_ask",
    "_ask_fun",
    "_atom",
    "_call",
    "_cast",
    "_send",
]
