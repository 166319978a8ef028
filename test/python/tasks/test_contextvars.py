"""Context variables: does each callback see those of the code that scheduled it?"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import sys

from connections import Recorder

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_callbacks(loop):
    seen = {}

    def note(name: str) -> None:
        seen[name] = variable.get()

    variable.set("mine")
    loop.call_soon(note, "soon")
    loop.call_later(0.001, note, "later")
    loop.call_at(loop.time() + 0.001, note, "at")
    loop.call_soon_threadsafe(note, "threadsafe")
    other = contextvars.copy_context()
    other.run(variable.set, "theirs")
    loop.call_soon(note, "given", context=other)
    loop.call_later(0.001, note, "given later", context=other)
    variable.set("changed")
    await asyncio.sleep(0.005)
    assert seen == {
        "soon": "mine",
        "later": "mine",
        "at": "mine",
        "threadsafe": "mine",
        "given": "theirs",
        "given later": "theirs",
    }


async def test_handle_knows_its_context(loop):
    variable.set("mine")
    handle = loop.call_soon(print)
    handle.cancel()
    if hasattr(handle, "get_context"):  # 3.12
        assert handle.get_context()[variable] == "mine"
    assert handle._context[variable] == "mine"


async def test_readers_and_writers(loop):
    seen = []
    near, far = socket.socketpair()
    done = asyncio.Event()

    def ready() -> None:
        seen.append(variable.get())
        loop.remove_reader(near)
        done.set()

    variable.set("when added")
    loop.add_reader(near, ready)
    variable.set("later")
    far.send(b"x")
    await done.wait()
    assert seen == ["when added"]
    near.close()
    far.close()


async def test_changes_stay_in_the_task(loop):
    async def change(value: str) -> str:
        variable.set(value)
        await asyncio.sleep(0.001)
        return variable.get()

    values = [str(number) for number in range(100)]
    assert await asyncio.gather(*map(change, values)) == values
    assert variable.get() == "unset"


async def test_protocols(loop):
    """A client's callbacks run in the context of create_connection's caller, a server's each in
    a copy of that of create_server's."""
    seen: dict[str, str] = {}

    class Server(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            seen["server made"] = variable.get()
            variable.set("connection's own")

        def data_received(self, data):
            seen["server data"] = variable.get()
            self.transport.close()

        def connection_lost(self, exc):
            super().connection_lost(exc)
            seen["server lost"] = variable.get()

    class Client(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            seen["client made"] = variable.get()
            transport.write(b"x")

        def connection_lost(self, exc):
            super().connection_lost(exc)
            seen["client lost"] = variable.get()

    variable.set("server")
    server = await loop.create_server(Server, "127.0.0.1", 0)
    variable.set("client")
    port = server.sockets[0].getsockname()[1]
    _, client = await loop.create_connection(Client, "127.0.0.1", port)
    await client.lost
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0)
    assert seen["server made"] == "server"
    assert seen["client made"] == "client"
    assert seen["client lost"] == "client"
    # From Python 3.15 on, a connection has one context.
    own = "connection's own" if sys.version_info >= (3, 15) else "server"
    assert (seen["server data"], seen["server lost"]) == (own, own)


async def test_executor_and_to_thread(loop):
    variable.set("mine")
    assert await asyncio.to_thread(variable.get) == "mine"
    # Free-threaded Python starts threads with a copy of the context, and they keep it.
    inherited = getattr(sys.flags, "thread_inherit_context", False)
    assert await loop.run_in_executor(None, variable.get) == ("mine" if inherited else "unset")


async def test_subprocess(loop):
    variable.set("mine")
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    assert variable.get() == "mine"
    assert os.getpid() != process.pid
