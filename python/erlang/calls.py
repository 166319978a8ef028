"""Calls of Erlang functions, from threads and from coroutines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .native import Fun, Question, _ask, _ask_fun, _call, _cast


def call(
    module: str,
    function: str,
    args: Sequence[Any] = (),
    *,
    timeout: float | None = None,
    node: str | None = None,
) -> Any:
    """Call an Erlang function and return its value. Any thread; waits without the GIL.

    An Erlang exception is raised as `erlang.Error`. After `timeout` seconds the Erlang process is
    killed and `TimeoutError` is raised. `node` is the name of another node.

    In the thread of a running event loop this blocks the loop, for at most 5 seconds if no
    timeout is given. Coroutines should use `async_call`.
    """
    return _call(module, function, args, timeout, node)


async def async_call(
    module: str,
    function: str,
    args: Sequence[Any] = (),
    *,
    timeout: float | None = None,
    node: str | None = None,
) -> Any:
    """Like `call`, for coroutines: other tasks run meanwhile.

    Cancellation kills the Erlang process.
    """
    return await _reply(_ask(module, function, args, node), timeout)


def cast(module: str, function: str, args: Sequence[Any] = (), *, node: str | None = None) -> None:
    """Call an Erlang function without waiting for it. Erlang logs a failure."""
    _cast(module, function, args, node)


async def _async_apply(fun: Fun, args: tuple[Any, ...]) -> Any:
    return await _reply(_ask_fun(fun, args), None)


async def _reply(question: Question, timeout: float | None) -> Any:
    future = question.future
    assert future is not None
    timer = None
    if timeout is not None:
        if not timeout >= 0:
            question.abandon()
            raise ValueError("timeout must not be negative")

        def expire() -> None:
            if not future.done():
                question.abandon()
                future.set_exception(TimeoutError(f"no reply within {timeout} s"))

        timer = future.get_loop().call_later(timeout, expire)
    try:
        return await future
    except BaseException:
        if future.done() and not future.cancelled():
            # Marks the exception as retrieved, in case a cancellation came at the same time.
            future.exception()
        else:
            question.abandon()
        raise
    finally:
        if timer is not None:
            timer.cancel()
