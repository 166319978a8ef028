"""Functions that take a list and return one, for py_batch_SUITE."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any


def squares_and_count(items: list[int]) -> list[tuple[int, int]]:
    return [(item * item, len(items)) for item in items]


async def squares_later(items: list[int]) -> list[int]:
    await asyncio.sleep(0)
    return [item * item for item in items]


def keyed(items: list[int], key: str) -> list[tuple[str, int, int]]:
    return [(key, item, len(items)) for item in items]


def some_fail(items: list[int]) -> list[Any]:
    values: dict[int, Any] = {2: ValueError("no 2"), 3: object()}
    return [values.get(item, item) for item in items]


def fail(items: list[int]) -> list[int]:
    raise ValueError("all")


def too_few(items: list[int]) -> list[int]:
    return items[:1]


def crash(items: list[int]) -> None:
    ctypes.string_at(0)
