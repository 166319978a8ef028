"""Streams to Erlang (`py:stream/4`): one asyncio task iterates for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable
from typing import Any, Protocol


class Sink(Protocol):
    """Where items go.

    When nobody wants the stream, no item is wanted and the task will be cancelled. If the
    generator goes on regardless, all methods raise `CancelledError`.
    """

    def is_wanted(self) -> bool:
        """Whether an item is wanted."""

    def send(self, item: object) -> bool:
        """Send an item that was wanted. False: pause before the next one."""

    def wait(self, future: asyncio.Future[None]) -> asyncio.Future[None]:
        """Answer `future`, which is resolved when there is demand."""


async def drive(source: Awaitable[Any] | AsyncIterable[Any], sink: Sink) -> Any:
    """Send what `source` yields as it is wanted.

    A coroutine is awaited first. If that answers no asynchronous iterable, it is the answer
    here: call threads iterate over it, lest it holds up the loop.
    """
    if not hasattr(type(source), "__aiter__"):
        source = await source  # type: ignore[misc]
        if not hasattr(type(source), "__aiter__"):
            return source
    iterator = source.__aiter__()  # type: ignore[union-attr]
    if not hasattr(type(iterator), "__aiter__"):
        iterator = _Iterated(iterator)
    try:
        if not sink.is_wanted():
            await pause(sink)
        async for item in iterator:
            if not sink.send(item):
                await pause(sink)
    finally:
        # At once, not when the collector finds it. Without effect if it has ended.
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()
    return None


class _Iterated:
    """An iterator that cannot be asked for itself, which `async for` over its source never does."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __aiter__(self) -> _Iterated:
        return self

    def __anext__(self) -> Awaitable[Any]:
        following: Awaitable[Any] = self._iterator.__anext__()
        return following

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


async def pause(sink: Sink) -> None:
    """Until an item is wanted; if one is, let others have their turn."""
    if sink.is_wanted():
        await asyncio.sleep(0)
    else:
        await sink.wait(asyncio.get_running_loop().create_future())
