"""`loop._transports`: the transports by fd, as in asyncio's loops."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..event_loop import ErlangEventLoop


class TransportView(MutableMapping[int, Any]):
    """A view of the native loop's table; does not keep transports alive."""

    def __init__(self, loop: ErlangEventLoop) -> None:
        self._loop = loop

    def __getitem__(self, fd: int) -> Any:
        transport = self._loop._transport_of(fd)
        if transport is None:
            raise KeyError(fd)
        return transport

    def __setitem__(self, fd: int, transport: Any) -> None:
        self._loop._put_transport(fd, transport)

    def __delitem__(self, fd: int) -> None:
        if not self._loop._take_transport(fd):
            raise KeyError(fd)

    def __iter__(self) -> Iterator[int]:
        return iter([fd for fd, _ in self._loop._all_transports()])

    def __len__(self) -> int:
        return len(self._loop._all_transports())
