"""The loop inside a CallbackLoop, and how it handles a callback that raises."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from .. import _native
from ..loop import ErlangEventLoop

if TYPE_CHECKING:
    from .loop import CallbackLoop


class Core(ErlangEventLoop):
    """An ErlangEventLoop with callbacks that belong to a CallbackLoop."""

    #: Set right after creation: the native base takes no extra arguments.
    front: weakref.ref[CallbackLoop]

    def _callback_failed(self, handle: _native.Handle, error: BaseException) -> None:
        """Report the exception, then let the owner of the callback's fd decide."""
        # Looked up first: the exception handler may close the loop.
        file = handle._args[0] if handle._args else None
        super()._callback_failed(handle, error)
        front = self.front()
        if front is not None and file is not None and not self.is_closed():
            front._watches.failed(handle, file, error)
