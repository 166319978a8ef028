"""Ways to run a program on the loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from . import compat
from .loop import ErlangEventLoop

T = TypeVar("T")


def new_event_loop() -> ErlangEventLoop:
    """Return a new loop: the `loop_factory` for asyncio.run, asyncio.Runner, uvicorn and others."""
    return ErlangEventLoop()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """asyncio.run on an ErlangEventLoop."""
    return compat.run(main, debug=debug, loop_factory=new_event_loop)
