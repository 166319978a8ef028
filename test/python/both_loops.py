"""The loops that tests of behaviour run on."""

from __future__ import annotations

import asyncio

import erlang_loop

LOOPS = {
    "asyncio": asyncio.SelectorEventLoop,
    "erlang_loop": erlang_loop.new_event_loop,
}
