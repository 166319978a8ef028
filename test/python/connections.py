"""Protocols that record their calls, and connections between two of them."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import AsyncIterator
from typing import Any


class Recorder(asyncio.Protocol):
    """A protocol that keeps everything: its events in order, its data, its end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.events: list[str] = []
        self.data = bytearray()
        self.made: asyncio.Future[asyncio.Transport] = loop.create_future()
        self.eof: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[Exception | None] = loop.create_future()
        self.paused = asyncio.Event()
        self.resumed = asyncio.Event()
        self._arrived = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.events.append("made")
        self.made.set_result(transport)

    def data_received(self, data: bytes) -> None:
        self.events.append("data")
        self.data += data
        self._arrived.set()

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        self.eof.set_result(None)
        return None

    def pause_writing(self) -> None:
        self.events.append("pause")
        self.resumed.clear()
        self.paused.set()

    def resume_writing(self) -> None:
        self.events.append("resume")
        self.paused.clear()
        self.resumed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)

    async def received(self, size: int) -> bytes:
        """All data, once there are `size` bytes of it."""
        while len(self.data) < size:
            self._arrived.clear()
            await self._arrived.wait()
        return bytes(self.data)


class HalfOpen(Recorder):
    """Stays open to write after the peer's end of file."""

    def eof_received(self) -> bool:
        super().eof_received()
        return True


class Buffered(asyncio.BufferedProtocol):
    """A BufferedProtocol with a small buffer."""

    def __init__(self, size: int = 7) -> None:
        loop = asyncio.get_running_loop()
        self.buffer = bytearray(size)
        self.data = bytearray()
        self.updates = 0
        self.lost: asyncio.Future[Exception | None] = loop.create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.updates += 1
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@contextlib.asynccontextmanager
async def connected(
    server_factory: Any = Recorder, client_factory: Any = Recorder, **options: Any
) -> AsyncIterator[tuple[Any, Any]]:
    """A server's and a client's protocol with a TCP connection between them."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Any] = loop.create_future()

    def accept() -> Any:
        protocol = server_factory()
        accepted.set_result(protocol)
        return protocol

    server = await loop.create_server(accept, "127.0.0.1", 0, **options)
    try:
        port = server.sockets[0].getsockname()[1]
        _, client = await loop.create_connection(client_factory, "127.0.0.1", port)
        protocol = await accepted
        if isinstance(protocol, Recorder):
            await protocol.made
        try:
            yield protocol, client
        finally:
            for end in (client, protocol):
                if not end.lost.done():
                    end.transport.abort()
    finally:
        server.close()
        await server.wait_closed()


class Datagrams(asyncio.DatagramProtocol):
    """Keeps datagrams and errors in queues."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.put_nowait(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@contextlib.asynccontextmanager
async def endpoint(**options: Any) -> AsyncIterator[tuple[Any, Datagrams]]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, **options)
    try:
        yield transport, protocol
    finally:
        transport.close()
        await protocol.lost


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A stream handler that echoes. Clients may disconnect at any time."""
    with contextlib.suppress(ConnectionError):
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
            await writer.wait_closed()


def is_readable(sock: socket.socket) -> bool:
    """Whether unread data has arrived."""
    return bool(select.select([sock], [], [], 0)[0])


async def eventually(condition: Any) -> None:
    """Waits for what has no event of its own."""
    while not condition():
        await asyncio.sleep(0.001)
