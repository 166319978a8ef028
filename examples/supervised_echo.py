"""The Python half of supervised_echo.escript: an echo server that a loop runs from its start."""

from __future__ import annotations

import asyncio
import contextlib
import errno


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Cancelled when its loop ends: nothing to report.
    with contextlib.suppress(asyncio.CancelledError):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    writer.close()


def start(port: int) -> None:
    """Init code of the loop: returns when the server listens, before the loop takes requests."""
    server = asyncio.get_event_loop().run_until_complete(listen(port))
    print(f"   (Python: listening on {server.sockets[0].getsockname()})")


async def listen(port: int) -> asyncio.Server:
    for _ in range(1000):
        try:
            return await asyncio.start_server(echo, "127.0.0.1", port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # The loop before this one was killed, and is just closing its socket.
            await asyncio.sleep(0.01)
    raise TimeoutError(f"port {port} is not given back")
