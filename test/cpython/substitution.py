"""Puts ErlangEventLoop wherever test.test_asyncio makes a selector loop."""

from __future__ import annotations

import asyncio
import selectors
import types
import weakref
from typing import Any

_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
_made = 0


def loops_made() -> int:
    """How many loops of ours the tests have made so far."""
    return _made


def open_loops() -> list[asyncio.AbstractEventLoop]:
    return [loop for loop in _loops if not loop.is_closed()]


def install() -> None:
    """From here on, `asyncio.new_event_loop` and `asyncio.SelectorEventLoop` make our loops."""
    tested = _tested_loop()
    asyncio.SelectorEventLoop = tested
    asyncio.unix_events.SelectorEventLoop = tested
    asyncio.unix_events._UnixSelectorEventLoop = tested
    policy = getattr(asyncio.unix_events, "_UnixDefaultEventLoopPolicy", None)
    policy = policy or asyncio.unix_events._DefaultEventLoopPolicy
    policy._loop_factory = tested
    # Some tests take the base class for a loop, with a mock of a selector; ours needs none.
    asyncio.BaseEventLoop = tested
    if hasattr(asyncio, "EventLoop"):
        asyncio.EventLoop = tested
        asyncio.unix_events.EventLoop = tested


def prepare(module: types.ModuleType) -> None:
    """What `install` cannot do before the module is there."""
    if module.__name__.endswith(".test_base_events"):
        # The module `asyncio.base_events` itself has to keep its class.
        module.base_events = _BaseEvents("asyncio.base_events")


class _BaseEvents(types.ModuleType):
    """`asyncio.base_events` with our loop as `BaseEventLoop`."""

    def __getattr__(self, name: str) -> Any:
        chosen = asyncio if name == "BaseEventLoop" else asyncio.base_events
        return getattr(chosen, name)


def _tested_loop() -> type[asyncio.AbstractEventLoop]:
    from erlang_loop import ErlangEventLoop

    class TestedLoop(ErlangEventLoop):
        """Tests that run once for each kind of selector run once for each kind of our loop."""

        def __new__(cls, selector: selectors.BaseSelector | None = None) -> Any:
            return super().__new__(cls, **_kind(selector))

        def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
            global _made
            if selector is not None:
                selector.close()
            super().__init__(**_kind(selector))
            _made += 1
            _loops.add(self)

    return TestedLoop


def _kind(selector: selectors.BaseSelector | None) -> dict[str, Any]:
    if isinstance(selector, selectors.SelectSelector):
        # Every wait is handed to the VM at once.
        return {"spin": 0.0, "direct_wait": 0.0}
    if isinstance(selector, selectors.PollSelector):
        return {"isolated": True}
    return {}
