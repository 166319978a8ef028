"""Regular files: the kernel does not watch them, because they are always ready.

As with libuv and `select()`, their callbacks are called in every turn of the loop until they are
removed. Other callbacks and fds run in between.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..loop.blocking import describe

if TYPE_CHECKING:
    from .watches import Watches


class AlwaysReady:
    """The watch of a file."""

    def __init__(
        self,
        watches: Watches,
        file: Any,
        callback: Callable[[Any], object],
        once: bool,
    ) -> None:
        self.file = file
        self._watches = watches
        self._callback = callback
        self._once = once
        self._context = contextvars.copy_context()
        self._handle = watches.core.call_soon(self._run, context=self._context)

    def cancel(self) -> None:
        self._handle.cancel()
        self._once = True

    def _run(self) -> None:
        try:
            self._callback(self.file)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._watches.file_failed(self, error)
            return
        if not self._once and not self._watches.core.is_closed():
            self._handle = self._watches.core.call_soon(self._run, context=self._context)

    def _describe_handler(self) -> str:
        return describe(self._callback)
