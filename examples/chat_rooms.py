"""A chat over WebSockets whose rooms are Erlang process groups.

    bin/erlang-loop examples/chat_rooms.py                                   talks to itself
    bin/erlang-loop -m erlang_loop.asgi --app-dir examples chat_rooms:app    serves on a port

Each WebSocket has a pid, which joins the group of its room (`pg`). So every Erlang process can
write to a room, on every node of the cluster, and a WebSocket that ends leaves its room by itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import erlang
from erlang import Atom, Pid
from erlang_loop.asgi import Server
from fastapi import FastAPI, WebSocket
from websockets.asyncio.client import ClientConnection, connect

ROOMS = Atom("chat_rooms")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # {error, {already_started, _}} if another worker of this node has started it.
    await erlang.async_call("pg", "start", [ROOMS])
    yield


app = FastAPI(lifespan=lifespan)


@app.websocket("/rooms/{room}")
async def visit(websocket: WebSocket, room: str, name: str) -> None:
    await websocket.accept()
    reading = asyncio.create_task(read_aloud(websocket, room, name))
    try:
        async for text in websocket.iter_text():
            await say(room, f"{name}: {text}")
    finally:
        # The task's pid ends, and leaves the group.
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await say(room, f"{name} has left")


async def read_aloud(websocket: WebSocket, room: str, name: str) -> None:
    """Sends what is said in the room to the client."""
    await erlang.async_call("pg", "join", [ROOMS, room, erlang.self()])
    await say(room, f"{name} is here")
    async for text in erlang.mailbox():
        await websocket.send_text(text)


async def members(room: str) -> list[Pid]:
    return list(await erlang.async_call("pg", "get_members", [ROOMS, room]))


async def say(room: str, text: str) -> None:
    for pid in await members(room):
        erlang.send(pid, text)


async def read(client: ClientConnection, count: int) -> str:
    return " | ".join([str(await client.recv()) for _ in range(count)])


async def talk_to_itself(address: str) -> None:
    async with connect(f"{address}/rooms/lobby?name=ann") as ann:
        print(f"1. ann reads: {await read(ann, 1)}")
        async with connect(f"{address}/rooms/lobby?name=bob") as bob:
            await read(bob, 1)
            await bob.send("hello")
            print(f"2. ann reads: {await read(ann, 2)}")
            print(f"3. bob reads: {await read(bob, 1)}")
        print(f"4. ann reads: {await read(ann, 1)}")
        # Any process can write to the room: here it is Erlang's timer server.
        for pid in await members("lobby"):
            await erlang.async_call("timer", "send_after", [10, pid, "the time is over"])
        print(f"5. ann reads: {await read(ann, 1)}")
    while await members("lobby"):  # noqa: ASYNC110  # pg notices it a moment later.
        await asyncio.sleep(0.01)
    print("6. the room is empty")


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(app)
    await server.start([listener])
    host, port = listener.getsockname()
    try:
        await talk_to_itself(f"ws://{host}:{port}")
    finally:
        await server.close()
        listener.close()


if __name__ == "__main__":
    asyncio.run(main())
