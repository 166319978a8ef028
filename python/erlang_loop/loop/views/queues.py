"""`loop._ready` and `loop._scheduled`: the queues of the native loop, as asyncio's loops show them.

Tests, debuggers and some libraries inspect them and append their own handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import _native

if TYPE_CHECKING:
    from ..event_loop import ErlangEventLoop


class ReadyView(Sequence[Any]):
    """The handles that run in the next turn, in order."""

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._loop = loop

    def append(self, handle: Any) -> None:
        if type(handle) in (_native.Handle, _native.TimerHandle):
            self._loop._ready_append(handle)
        else:
            self._loop.call_soon(handle._run)  # The handle enters its context itself.

    def clear(self) -> None:
        self._loop._ready_clear()

    def __len__(self) -> int:
        return len(self._loop._ready_handles())

    def __getitem__(self, index: Any) -> Any:
        return [_as_added(handle) for handle in self._loop._ready_handles()][index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class ScheduledView(Sequence[Any]):
    """The pending timers, earliest first. May include cancelled ones."""

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._loop = loop

    def append(self, handle: Any) -> None:
        self._loop.call_at(handle._when, handle._run)

    def clear(self) -> None:
        self._loop._timers_clear()

    def __len__(self) -> int:
        return len(self._loop._timer_handles())

    def __getitem__(self, index: Any) -> Any:
        return [_as_added(handle) for handle in sorted(self._loop._timer_handles())][index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


def _as_added(handle: _native.Handle) -> Any:
    """Return the foreign handle that `append` has wrapped, or our own handle unchanged."""
    owner = getattr(handle._callback, "__self__", None)
    name = getattr(handle._callback, "__name__", None)
    return owner if name == "_run" and hasattr(owner, "_callback") else handle
