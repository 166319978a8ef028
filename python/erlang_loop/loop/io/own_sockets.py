"""Sockets whose class overrides reading or writing, for example to count, record or simulate.

Native transports use only the descriptor, so such sockets get asyncio's own transports.
"""

from __future__ import annotations

import socket

__all__ = ["has_own_methods"]

#: The methods that asyncio's transports call.
_METHODS = ("recv", "recv_into", "recvfrom", "send", "sendmsg", "sendto")

_SOCKET = socket.socket


def has_own_methods(sock: socket.socket) -> bool:
    """Whether the class overrides a method that asyncio's transports call."""
    if type(sock) is _SOCKET:
        return False
    return any(
        getattr(type(sock), name, None) is not getattr(_SOCKET, name, None) for name in _METHODS
    )
