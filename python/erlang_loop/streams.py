"""Streams to Erlang (`py:stream/4`): one asyncio task iterates for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable
from typing import Any, Protocol


class Sink(Protocol):
    """The consumer of a stream.

    When the consumer is gone, there is no demand and the task is about to be cancelled. If the
    generator continues regardless, all methods raise `CancelledError`.
    """

    def is_wanted(self) -> bool:
        """Whether there is demand for an item."""

    def send(self, item: object) -> bool:
        """Send an item for which there is demand. False: pause before the next one."""

    def wait(self, future: asyncio.Future[None]) -> asyncio.Future[None]:
        """Return `future`, which is resolved when there is demand."""


async def drive(source: Awaitable[Any] | AsyncIterable[Any], sink: Sink) -> Any:
    """Send the items of `source` while there is demand.

    A coroutine is awaited first. If its result is not an asynchronous iterable, it is returned:
    call threads iterate over it, so that it does not block the loop.
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
        # At once, not when it is garbage collected. No effect if it has ended.
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()
    return None


class _Iterated:
    """An iterator without `__aiter__`, which `async for` over its source does not need."""

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
    """Wait for demand; if there is demand, let other callbacks run."""
    if sink.is_wanted():
        await asyncio.sleep(0)
    else:
        await sink.wait(asyncio.get_running_loop().create_future())
