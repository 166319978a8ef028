"""Objects that suites hold by reference."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

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
