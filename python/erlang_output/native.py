"""The parts of the native library that this package uses.

This is `erlang_loop._native` under its other name: see `erlang/native.py`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from erlang_loop._native import _flush, _log, _unraisable_hook, _write
else:
    try:
        from py_event_loop import _flush, _log, _unraisable_hook, _write
    except ImportError:
        raise ImportError(
            "erlang_output works inside an Erlang node: start the erlang_loop application in your "
            "own node"
        ) from None

__all__ = ["_flush", "_log", "_unraisable_hook", "_write"]
