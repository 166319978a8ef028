"""What suites stream from Erlang: generators of all kinds, that end, fail, wait and refuse."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import called

#: Generators that have begun and not been finalized.
open_now = 0
most_open = 0
#: Without a GIL several threads may count at the same moment.
_counting = threading.Lock()


def _opened() -> None:
    global open_now, most_open
    with _counting:
        open_now += 1
        most_open = max(most_open, open_now)


def _closed() -> None:
    global open_now
    with _counting:
        open_now -= 1


def count_open() -> int:
    return open_now


async def count(n: int, start: int = 0) -> AsyncIterator[int]:
    for number in range(start, start + n):
        yield number


async def count_slowly(n: int) -> AsyncIterator[int]:
    for number in range(n):
        await asyncio.sleep(0)
        yield number


def plain_count(n: int, start: int = 0) -> Iterator[int]:
    yield from range(start, start + n)


async def tracked(name: str) -> AsyncIterator[int]:
    """Endless; notes how it ended."""
    _opened()
    number = 0
    try:
        while True:
            yield number
            number += 1
    except GeneratorExit:
        called.note(f"{name} closed")
        raise
    finally:
        await asyncio.sleep(0)
        called.note(f"{name} finalized")
        _closed()


def plain_tracked(name: str) -> Iterator[int]:
    _opened()
    number = 0
    try:
        while True:
            yield number
            number += 1
    finally:
        called.note(f"{name} finalized")
        _closed()


async def waits(name: str) -> AsyncIterator[int]:
    """One item, and then it waits."""
    _opened()
    try:
        yield 0
        called.note(f"{name} waits")
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        called.note(f"{name} cancelled")
        raise
    finally:
        _closed()


async def refuses(name: str) -> AsyncIterator[str]:
    """Catches its cancellation and goes on."""
    try:
        called.note(f"{name} waits")
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        called.note(f"{name} refused")
    yield "went on"
    yield "and on"


def plain_blocks(name: str) -> Iterator[int]:
    """Blocks its thread after the first item, until called.release()."""
    try:
        yield 0
        called.note(f"{name} blocks")
        called.block()
        yield 1
    finally:
        called.note(f"{name} finalized")


async def fails(after: int) -> AsyncIterator[int]:
    for number in range(after):
        yield number
    raise ValueError("on purpose")


def plain_fails(after: int) -> Iterator[int]:
    yield from range(after)
    raise ValueError("on purpose")


async def fails_at_its_end() -> AsyncIterator[int]:
    try:
        while True:
            yield 1
    finally:
        raise KeyError("in a finalizer")


def plain_fails_at_its_end() -> Iterator[int]:
    try:
        while True:
            yield 1
    finally:
        raise KeyError("in a finalizer")


async def unconvertible(name: str) -> AsyncIterator[Any]:
    try:
        yield 1
        yield {"x": [2**64, 10**400, "\ud800"]}
    finally:
        called.note(f"{name} finalized")


def plain_unconvertible(name: str) -> Iterator[Any]:
    try:
        yield 1
        yield {"x": [2**64, 10**400, "\ud800"]}
    finally:
        called.note(f"{name} finalized")


async def opens(n: int) -> AsyncIterator[int]:
    """A coroutine that returns an asynchronous generator."""
    await asyncio.sleep(0)
    return count(n)


async def opens_plain(n: int) -> Iterator[int]:
    """A coroutine that returns a plain generator."""
    await asyncio.sleep(0)
    return plain_count(n)


def makes(n: int) -> AsyncIterator[int]:
    """A plain function that returns an asynchronous generator."""
    return count(n)


class Countdown:
    """An asynchronous iterator that is no generator."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __aiter__(self) -> Countdown:
        return self

    async def __anext__(self) -> int:
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        return self.n


class Following:
    """What `__aiter__` answers needs no `__aiter__` of its own."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._next = 0

    async def __anext__(self) -> int:
        if self._next == self._n:
            raise StopAsyncIteration
        self._next += 1
        return self._next - 1


class Followed:
    def __init__(self, n: int) -> None:
        self._n = n

    def __aiter__(self) -> Following:
        return Following(self._n)


def iterates(n: int) -> Followed:
    return Followed(n)


async def threads_of_items(n: int) -> AsyncIterator[int]:
    for _ in range(n):
        yield threading.get_ident()


def plain_threads(n: int) -> Iterator[tuple[int, bool]]:
    for _ in range(n):
        yield threading.get_ident(), called.has_running_loop()


def plain_sleeps(n: int, seconds: float) -> Iterator[int]:
    for number in range(n):
        time.sleep(seconds)
        yield number


async def leaves(code: int) -> AsyncIterator[int]:
    yield 0
    raise SystemExit(code)


async def panics() -> AsyncIterator[int]:
    yield 0
    called.panic()


def plain_panics() -> Iterator[int]:
    yield 0
    called.panic()
