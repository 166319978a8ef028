"""Objects that suites hold by reference."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import erlang

_shared = {"shared": True}
_threads: list[int] = []


class Number:
    """Has no value in Erlang."""

    def __init__(self, number: int) -> None:
        self.number = number


def shared_dict() -> dict[str, bool]:
    return _shared


async def shared_dict_later() -> dict[str, bool]:
    await asyncio.sleep(0)
    return _shared


def is_shared_dict(value: Any) -> bool:
    return value is _shared


def two_objects() -> Iterator[Number]:
    yield Number(0)
    yield Number(1)


async def two_objects_later() -> AsyncIterator[Number]:
    for number in two_objects():
        await asyncio.sleep(0)
        yield number


def numbers_of(objects: list[Number]) -> list[int]:
    return [found.number for found in objects]


async def note_thread() -> None:
    _threads.append(threading.get_ident())


def noted_threads() -> list[int]:
    return _threads


class Client:
    """Keeps state between calls, as the client of a server does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[Any] = []
        self.number = Number(7)

    def send(self, *what: Any, times: int = 1) -> int:
        self.sent += what * times
        return len(self.sent)

    async def send_later(self, what: Any) -> tuple[int, int]:
        """On which thread it ran, and how many have been sent."""
        await asyncio.sleep(0)
        return threading.get_ident(), self.send(what)

    def all_sent(self) -> Iterator[Any]:
        yield from self.sent

    async def all_sent_later(self) -> AsyncIterator[Any]:
        for one in self.sent:
            await asyncio.sleep(0)
            yield one

    def __getitem__(self, place: int) -> Any:
        return self.sent[place]

    def __repr__(self) -> str:
        return f"<client {self.name}>"


class Counted:
    """Knows how many of its kind there are, and which thread ended the last one."""

    living = 0
    ended_by = 0

    def __init__(self) -> None:
        Counted.living += 1

    def __del__(self) -> None:
        Counted.living -= 1
        Counted.ended_by = threading.get_ident()


def counted() -> Counted:
    return Counted()


async def counted_later() -> Counted:
    return Counted()


def living() -> int:
    return Counted.living


def ended_by() -> int:
    return Counted.ended_by


def is_same(one: Any, other: Any) -> bool:
    return one is other


def handle_of(value: Any) -> Any:
    return erlang.Handle(value)


def parts(value: Any) -> tuple[Any, ...]:
    """The types in a container that came from Erlang."""
    return tuple(type(part).__name__ for part in value)
