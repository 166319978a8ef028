"""Sockets of a program's own class that read or write in their own way: to count, to record, to
pretend. Native transports use the descriptor alone, so these have asyncio's own transports.
"""

from __future__ import annotations

import socket

__all__ = ["has_own_methods"]

#: What asyncio's transports call.
_METHODS = ("recv", "recv_into", "recvfrom", "send", "sendmsg", "sendto")

_SOCKET = socket.socket


def has_own_methods(sock: socket.socket) -> bool:
    """Whether asyncio would call a method that is not the standard library's."""
    if type(sock) is _SOCKET:
        return False
    return any(
        getattr(type(sock), name, None) is not getattr(_SOCKET, name, None) for name in _METHODS
    )
