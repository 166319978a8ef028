"""FastAPI with a pool of database connections: startup opens them, shutdown closes them.

    bin/erlang-loop examples/pool_api.py                                   asks itself
    bin/erlang-loop -m erlang_loop.asgi --app-dir examples pool_api:app    serves on a port

The database is SQLite in a temporary folder, whose functions block: they run on threads.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx
from erlang_loop.asgi import Server
from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

CONNECTIONS = 3


class Pool:
    """As many connections as may be busy at the same time; `run` waits for one of them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.free: asyncio.Queue[sqlite3.Connection] = asyncio.Queue()

    async def open(self) -> None:
        for _ in range(CONNECTIONS):
            self.free.put_nowait(await asyncio.to_thread(self._connect))
        await self.run("create table notes (id integer primary key, text text)")

    def _connect(self) -> sqlite3.Connection:
        # Writers wait for each other. Each statement is a transaction.
        return sqlite3.connect(self.path, timeout=60, check_same_thread=False, isolation_level=None)

    async def run(self, statement: str, *values: Any) -> list[Any]:
        """The rows of one statement."""
        connection = await self.free.get()
        try:
            return await asyncio.to_thread(self._execute, connection, statement, values)
        finally:
            self.free.put_nowait(connection)

    def _execute(self, connection: sqlite3.Connection, statement: str, values: Any) -> list[Any]:
        with closing(connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    async def close(self) -> None:
        """Waits until no connection is busy."""
        for _ in range(CONNECTIONS):
            (await self.free.get()).close()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(os.path.join(folder, "notes.db"))
        await pool.open()
        print(f"startup has opened {pool.free.qsize()} connections")
        # Requests find it as `request.state.pool`.
        yield {"pool": pool}
        await pool.close()
        print("shutdown has closed them")


class Note(BaseModel):
    text: str = Field(max_length=100)


app = FastAPI(lifespan=lifespan)


@app.post("/notes", status_code=201)
async def add(note: Note, request: Request) -> dict[str, int]:
    insert = "insert into notes (text) values (?) returning id"
    ((number,),) = await request.state.pool.run(insert, note.text)
    return {"id": number}


@app.get("/notes")
async def count(request: Request) -> dict[str, int]:
    ((number,),) = await request.state.pool.run("select count(*) from notes")
    return {"notes": number}


async def ask_itself(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        notes = [{"text": f"note {n}"} for n in range(50)]
        replies = await asyncio.gather(*(client.post("/notes", json=note) for note in notes))
        assert sorted(reply.json()["id"] for reply in replies) == [*range(1, 51)]
        counted = (await client.get("/notes")).json()
        print(f"{counted['notes']} notes from 50 requests at the same time")
        wrong = await client.post("/notes", json={"text": "x" * 101})
        print(f"a long note: {wrong.status_code}, {wrong.json()['detail'][0]['msg']}")


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(app)
    await server.start([listener])
    host, port = listener.getsockname()
    try:
        await ask_itself(f"http://{host}:{port}")
    finally:
        await server.close()
        listener.close()


if __name__ == "__main__":
    asyncio.run(main())
