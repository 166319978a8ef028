"""Echo by an asyncio protocol, on the default loop of this interpreter."""

from __future__ import annotations

import asyncio

from bench.front_ends.listening import listen


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, sock=listen(), backlog=4096)
    await server.serve_forever()


asyncio.run(main())
