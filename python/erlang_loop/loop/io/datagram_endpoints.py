"""`loop.create_datagram_endpoint` with `reuse_address`, which asyncio dropped in Python 3.11."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any


class DatagramEndpoints(asyncio.SelectorEventLoop):
    """The part of ErlangEventLoop that opens datagram endpoints."""

    async def create_datagram_endpoint(
        self,
        protocol_factory: Callable[[], Any],
        local_addr: Any = None,
        remote_addr: Any = None,
        *,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
        allow_broadcast: bool | None = None,
        sock: socket.socket | None = None,
        **resolving: Any,
    ) -> tuple[Any, Any]:
        """As asyncio's; `reuse_address=True` sets SO_REUSEADDR.

        On Linux that lets several sockets of one user share an address, of which each datagram
        reaches one: asyncio therefore has it no more.
        """
        if reuse_address and sock is None:
            return await self._create_reusing(
                protocol_factory, local_addr, remote_addr, reuse_port, allow_broadcast, resolving
            )
        if reuse_address:
            raise ValueError("reuse_address has no effect on a given socket: set it there")
        return await super().create_datagram_endpoint(
            protocol_factory,
            local_addr,
            remote_addr,
            reuse_port=reuse_port,
            allow_broadcast=allow_broadcast,
            sock=sock,
            **resolving,
        )

    async def _create_reusing(
        self,
        protocol_factory: Callable[[], Any],
        local_addr: Any,
        remote_addr: Any,
        reuse_port: bool | None,
        allow_broadcast: bool | None,
        resolving: dict[str, Any],
    ) -> tuple[Any, Any]:
        """asyncio binds the socket itself and has no parameter for the option: so bind before."""
        if local_addr is None:
            raise ValueError("reuse_address needs a local_addr")
        found = await self.getaddrinfo(*local_addr, type=socket.SOCK_DGRAM, **resolving)
        family, kind, proto, _, address = found[0]
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if allow_broadcast:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.bind(address)
            if remote_addr is not None:
                resolving = {**resolving, "family": family}
                found = await self.getaddrinfo(*remote_addr, type=socket.SOCK_DGRAM, **resolving)
                await self.sock_connect(sock, found[0][4])
            return await super().create_datagram_endpoint(protocol_factory, sock=sock)
        except BaseException:
            sock.close()
            raise
