"""What py_sockets_from_erlang_SUITE calls. Each function owns the fd that it gets."""

import asyncio
import socket


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(fd):
    async with await asyncio.start_server(echo, sock=socket.socket(fileno=fd)) as server:
        await server.serve_forever()


async def send_back(fd, already_read):
    """Everything the peer sends, after what Erlang has read of it."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=fd))
    writer.write(already_read + await reader.read())
    writer.close()
    await writer.wait_closed()
