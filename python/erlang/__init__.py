"""Erlang for Python programs inside a node: values, functions and processes.

`docs/values.md` has the conversion tables, `docs/erlang_module.md` the rest.
"""

from .actors import spawn, spawn_on
from .atom import Atom
from .calls import async_call, call, cast
from .channels import Channel
from .converters import decoder, encoder, remove_decoder, remove_encoder
from .errors import ConversionError, Error, StackFrame
from .interrupts import Interrupted, uninterruptible
from .mailboxes import Mailbox, async_receive, mailbox, receive, self
from .messages import send
from .names import register, unregister, whereis
from .native import BitString, Fun, Pid, Port, Ref, SharedBuffer
from .native import ObjectHandle as Handle
from .watching import link, monitor

__all__ = [
    "Atom",
    "BitString",
    "Channel",
    "ConversionError",
    "Error",
    "Fun",
    "Handle",
    "Interrupted",
    "Mailbox",
    "Pid",
    "Port",
    "Ref",
    "SharedBuffer",
    "StackFrame",
    "async_call",
    "async_receive",
    "call",
    "cast",
    "decoder",
    "encoder",
    "link",
    "mailbox",
    "monitor",
    "receive",
    "register",
    "remove_decoder",
    "remove_encoder",
    "self",
    "send",
    "spawn",
    "spawn_on",
    "uninterruptible",
    "unregister",
    "whereis",
]
