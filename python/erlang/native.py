"""The parts of the native library that this package uses.

This is `erlang_loop._native` under its other name, `py_event_loop`: importing it as
`erlang_loop._native` would also import `erlang_loop` and asyncio, which a program that only
converts values does not need.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from erlang_loop._native import (
        BitString,
        Channel,
        Fun,
        Mailbox,
        ObjectHandle,
        Pid,
        Port,
        Question,
        Ref,
        SharedBuffer,
        _ask,
        _ask_fun,
        _atom,
        _call,
        _cast,
        _protect,
        _resume,
        _send,
        _set_decoder,
        _set_encoder,
    )
else:
    try:
        from py_event_loop import (
            BitString,
            Channel,
            Fun,
            Mailbox,
            ObjectHandle,
            Pid,
            Port,
            Question,
            Ref,
            SharedBuffer,
            _ask,
            _ask_fun,
            _atom,
            _call,
            _cast,
            _protect,
            _resume,
            _send,
            _set_decoder,
            _set_encoder,
        )
    except ImportError:
        from erlang_loop_default import not_here

        raise not_here("erlang") from None

__all__ = [
    "BitString",
    "Channel",
    "Fun",
    "Mailbox",
    "ObjectHandle",
    "Pid",
    "Port",
    "Question",
    "Ref",
    "SharedBuffer",
    "_ask",
    "_ask_fun",
    "_atom",
    "_call",
    "_cast",
    "_protect",
    "_resume",
    "_send",
    "_set_decoder",
    "_set_encoder",
]
