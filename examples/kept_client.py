"""A client that keeps its connection open, as those of databases and of language models do."""

from __future__ import annotations

import asyncio


class Client:
    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.lines: _Lines | None = None
        self.turn = asyncio.Lock()

    async def ask(self, question: str) -> str:
        """One question at a time: replies come in the order of the questions."""
        async with self.turn:
            if self.lines is None:
                self.lines = _Lines(*await asyncio.open_connection(*self.address))
            return await self.lines.exchange(question)

    async def close(self) -> None:
        if self.lines is not None:
            self.lines.writer.close()
            await self.lines.writer.wait_closed()

    def __repr__(self) -> str:
        return f"<client of {self.address[1]}, {'open' if self.lines else 'new'}>"


class _Lines:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def exchange(self, line: str) -> str:
        self.writer.write(line.encode() + b"\n")
        reply = await self.reader.readline()
        if not reply:
            raise ConnectionResetError("the server has closed the connection")
        return reply.decode().rstrip("\n")
