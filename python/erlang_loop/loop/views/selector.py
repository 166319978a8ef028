"""`loop._selector`: the fds that the native loop watches, as a selector.

asyncio's loops have one, and some programs inspect it. Registering an fd through it works, too; its
callback does nothing, because a selector has no callbacks.
"""

from __future__ import annotations

import selectors
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..event_loop import ErlangEventLoop


class _Keys(Mapping[Any, selectors.SelectorKey]):
    def __init__(self, view: SelectorView) -> None:
        self._view = view

    def __len__(self) -> int:
        return len(self._view._loop()._watched_fds())

    def __iter__(self) -> Iterator[int]:
        return iter(self._view._loop()._watched_fds())

    def __getitem__(self, fileobj: Any) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        reader, writer = self._view._loop()._fd_handles(fd)
        if reader is None and writer is None:
            raise KeyError(f"{fileobj!r} is not registered")
        events = selectors.EVENT_READ if reader else 0
        events |= selectors.EVENT_WRITE if writer else 0
        return selectors.SelectorKey(fileobj, fd, events, (reader, writer))


class SelectorView(selectors.BaseSelector):
    """A selector over the fds of a native loop; it cannot be waited on."""

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._ref = weakref.ref(loop)

    def _loop(self) -> ErlangEventLoop:
        loop = self._ref()
        if loop is None or loop.is_closed():
            raise RuntimeError("Event loop is closed")
        return loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError("register fds with loop.add_reader and loop.add_writer")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError("unregister fds with loop.remove_reader and loop.remove_writer")

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise NotImplementedError("the native loop waits by itself")

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return _Keys(self)


class SelectorOnDemand:
    """The attribute `_selector` of loops: a new view each time, because it has no state.

    Returns the selector that a program has set, if any; None for a closed loop, as in asyncio.
    """

    def __get__(self, loop: ErlangEventLoop | None, owner: object = None) -> Any:
        if loop is None:
            return self
        return None if loop.is_closed() else SelectorView(loop)
