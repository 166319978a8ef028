"""What native transports are seen as: subclasses of asyncio's, for isinstance.

They are never made: the native class answers one of these as its `__class__`, because it cannot
inherit from asyncio's own (both lay out their fields).
"""

from __future__ import annotations

from asyncio import transports


class _ErlangSocketTransport(transports._FlowControlMixin, transports.Transport):
    """A stream over a socket (`_native.StreamTransport`)."""
