"""An asyncio program that knows nothing of Erlang: it counts words that clients send.

python examples/moved_in.py      as it was
moved_in.escript                 in a node
"""

from __future__ import annotations

import asyncio
from collections import Counter

words: Counter[str] = Counter()


async def serve(port: int) -> None:
    server = await asyncio.start_server(count, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        words.update(line.decode().split())
        writer.write(b"%d\n" % words.total())
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(8001))
