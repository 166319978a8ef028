"""Actors of py_actor_SUITE."""

from __future__ import annotations

import asyncio
from typing import Any

import erlang


async def server(name: str = "") -> None:
    """Does what its messages say."""
    async for message in erlang.mailbox():
        if message == "stop":
            return
        what, *rest = message
        if what == "echo":
            to, value = rest
            erlang.send(to, (erlang.self(), value))
        elif what == "name":
            erlang.send(rest[0], name)
        elif what == "raise":
            raise ValueError(rest[0])
        elif what == "exit":
            raise erlang.Error("exit", rest[0])
        elif what == "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        elif what == "$gen_call":
            reply, request = rest
            reply((erlang.Atom("answer"), request))


async def until_cancelled(to: erlang.Pid) -> None:
    """Tells how it ends."""
    erlang.send(to, erlang.Atom("started"))
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        erlang.send(to, erlang.Atom("was_cancelled"))
        raise


def plain() -> int:
    return 1


def spawn(to: erlang.Pid) -> erlang.Pid:
    """On a call thread: the actor is one of the default loop."""
    return erlang.spawn(until_cancelled, to)


async def spawn_later(count: int) -> list[erlang.Pid]:
    return [erlang.spawn(server) for _ in range(count)]


def own_pid() -> erlang.Pid:
    return erlang.self()


async def own_pid_later(to: erlang.Pid | None = None) -> erlang.Pid:
    if to is not None:
        erlang.send(to, erlang.self())
        await asyncio.sleep(3600)
    return erlang.self()


def receive(to: erlang.Pid) -> Any:
    """A plain function that waits for a message."""
    erlang.send(to, erlang.self())
    return erlang.receive(timeout=30)


async def watch(pid: erlang.Pid, to: erlang.Pid) -> Any:
    async with erlang.monitor(pid) as ref:
        erlang.send(to, erlang.Atom("watching"))
        message = await erlang.async_receive(timeout=30)
        return message[1] == ref, message[0], message[2:]


async def linked(pid: erlang.Pid, to: erlang.Pid) -> str:
    try:
        async with erlang.link(pid):
            erlang.send(to, erlang.self())
            await asyncio.sleep(3600)
    except erlang.Error as error:
        return f"{error.kind} {error.reason}"
    return "nothing"


async def fails_while_linked(pid: erlang.Pid) -> None:
    async with erlang.link(pid):
        raise ValueError("while linked")


async def is_linked_no_more(pid: erlang.Pid, to: erlang.Pid) -> str:
    async with erlang.link(pid):
        pass
    erlang.send(to, erlang.self())
    return str(await erlang.async_receive(timeout=30))
