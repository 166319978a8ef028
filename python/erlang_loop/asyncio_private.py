"""The parts of asyncio's loops that are private but needed here, as a type checker must see them.

They are the same in all Python versions supported; CPython's own tests, run on ErlangEventLoop,
would notice a change.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    class AsyncioLoop(asyncio.SelectorEventLoop):
        """asyncio's loop on Unix: the parts of ErlangEventLoop build on it."""

        _current_handle: asyncio.Handle | None
        _debug: bool
        _signal_handlers: Any
        #: A WeakValueDictionary by fd; its `data` is what asking for a number costs least.
        _transports: Any

        def _check_closed(self) -> None: ...
        def _check_running(self) -> None: ...
        def _ensure_fd_no_transport(self, fd: socket.socket) -> None: ...
        def _add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> Any: ...
        def _remove_reader(self, fd: Any) -> bool: ...
        def _start_serving(self, *args: Any, **kwargs: Any) -> None: ...
        def _child_watcher_callback(self, pid: int, returncode: int, transp: Any) -> None: ...
        def _check_signal(self, sig: int) -> None: ...
        def _set_coroutine_origin_tracking(self, enabled: bool) -> None: ...
        def _asyncgen_firstiter_hook(self, agen: AsyncGenerator[Any, Any]) -> None: ...
        def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None: ...

else:
    AsyncioLoop = asyncio.SelectorEventLoop
