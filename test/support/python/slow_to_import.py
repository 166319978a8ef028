"""Its import ends when `called.release` is called; how an import can hang."""

from __future__ import annotations

import asyncio

import called

called.block()


async def sleep_long() -> None:
    await asyncio.sleep(3600)


def nothing() -> None:
    pass
