"""Python asks Erlang: functions of Erlang modules, called from threads and from coroutines."""

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
    """Call an Erlang function and wait for its value, without the GIL. For any thread.

    An Erlang exception is raised as `erlang.Error`. After `timeout` seconds what runs is killed,
    and `TimeoutError` is raised. `node` is the name of another node.

    On the thread of a running event loop this blocks the loop, for 5 seconds at most if no
    timeout is given: coroutines use `async_call`.
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
    """As `call`, for coroutines: other tasks run meanwhile. Cancelling it kills what runs."""
    return await _answer(_ask(module, function, args, node), timeout)


def cast(module: str, function: str, args: Sequence[Any] = (), *, node: str | None = None) -> None:
    """Have an Erlang function called, and not wait. A failure is logged by Erlang."""
    _cast(module, function, args, node)


async def _async_apply(fun: Fun, args: tuple[Any, ...]) -> Any:
    return await _answer(_ask_fun(fun, args), None)


async def _answer(question: Question, timeout: float | None) -> Any:
    future = question.future
    assert future is not None
    timer = None
    if timeout is not None:
        if not timeout >= 0:
            question.give_up()
            raise ValueError("timeout must not be negative")

        def expire() -> None:
            if not future.done():
                question.give_up()
                future.set_exception(TimeoutError(f"no answer within {timeout} s"))

        timer = future.get_loop().call_later(timeout, expire)
    try:
        return await future
    except BaseException:
        if future.done() and not future.cancelled():
            # Looked at, also if a cancellation came at the same moment: asyncio need not warn.
            future.exception()
        else:
            question.give_up()
        raise
    finally:
        if timer is not None:
            timer.cancel()
