"""A warning that names the handler that blocked the loop: file, line, and for how long.

asyncio's debug mode has one, at the price of debug mode. This one can stay on: the native loop
looks at the clock before and after each callback: asyncio/loop_class/blocking.rs in
native/py_nif/src.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from asyncio.log import logger as asyncio_logger
from types import CodeType
from typing import Any

from .. import _native
from ..placeholders import named
from .asyncio_private import AsyncioLoop

logger = logging.getLogger("erlang_loop")


class BlockingDetection(AsyncioLoop):
    """The part of ErlangEventLoop that notices handlers that take long."""

    def set_blocking_threshold(self, seconds: float | None) -> None:
        """Log a warning for every callback, task step or protocol call that takes this long.

        None, as in the beginning: nothing is measured.
        """
        _native.set_blocking_threshold(self, seconds)

    def _handler_blocked(self, source: Any, seconds: float) -> None:
        """Called by the native loop."""
        if self._debug and seconds >= self.slow_callback_duration:
            # Debug mode has named it.
            return
        logger.warning("The loop was blocked for %.3f seconds by %s", seconds, describe(source))

    def _transport_took(self, transport: Any, seconds: float) -> None:
        """Debug mode: asyncio names the handle of a slow transport, which ours have not."""
        if seconds >= self.slow_callback_duration:
            asyncio_logger.warning("Executing %s took %.3f seconds", describe(transport), seconds)


def describe(source: Any) -> str:
    """Names what a loop called, with the file and line of its code where it has any."""
    return named(_describe, source)


def _describe(source: Any) -> str:
    owner = getattr(source, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return _describe_task(owner)
    # A wrapper of ours around the program's own callback.
    describe_inner = getattr(owner, "_describe_handler", None)
    if describe_inner is not None:
        return str(describe_inner())
    if isinstance(source, asyncio.BaseTransport):
        protocol = source.get_protocol()
        # Without one at the end.
        return repr(source) if protocol is None else _describe_protocol(protocol)
    return _describe_function(source)


def _describe_task(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", None) or repr(coroutine)
    return f"{name}() of {task.get_name()}{place(coroutine, 'cr')}"


def place(running: Any, prefix: str) -> str:
    """Where a coroutine (`cr`) or generator (`gi`) stands, or where its code begins."""
    code: CodeType | None = getattr(running, f"{prefix}_code", None)
    if code is None:
        return ""
    frame = getattr(running, f"{prefix}_frame", None)
    line = code.co_firstlineno if frame is None else frame.f_lineno
    return f" at {code.co_filename}:{line}"


def _describe_protocol(protocol: Any) -> str:
    kind = type(protocol)
    for name in ("data_received", "buffer_updated", "datagram_received"):
        method = getattr(kind, name, None)
        if method is not None:
            return _describe_function(method)
    return repr(protocol)


def _describe_function(function: Any) -> str:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    code = getattr(inner, "__code__", None) or _code_of_call(inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    if code is None:
        return f"{name}()" if callable(inner) else repr(inner)
    return f"{name}() at {code.co_filename}:{code.co_firstlineno}"


def _code_of_call(instance: Any) -> CodeType | None:
    """Of an object that is called through its class."""
    code = getattr(getattr(type(instance), "__call__", None), "__code__", None)  # noqa: B004
    return code if isinstance(code, CodeType) else None
