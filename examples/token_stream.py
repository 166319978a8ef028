"""Imitates a language model: tokens come one by one, each takes a moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

ANSWER = (
    "A loop waits until something happens , runs what was waiting for it , and waits again ."
    " That is all there is to it ."
)

#: The replies in progress, and how earlier ones ended.
at_work = 0
finished = 0
stopped = 0


async def answer(question: str, pause: float = 0.005) -> AsyncIterator[str]:
    """Yield the tokens of a reply."""
    global at_work, finished, stopped
    at_work += 1
    try:
        for token in ANSWER.split():
            # A real model computes or waits for its server here. A Stop arrives here.
            await asyncio.sleep(pause)
            yield token
        finished += 1
    except (asyncio.CancelledError, GeneratorExit):
        stopped += 1
        raise
    finally:
        at_work -= 1


def counts() -> tuple[int, int, int]:
    """How many replies are in progress, finished, stopped."""
    return at_work, finished, stopped
