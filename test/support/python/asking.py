"""Questions of Python to Erlang, for suites: see py_questions_SUITE."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import erlang


def ask(module: str, function: str, args: list[Any], timeout: float | None = None) -> Any:
    return erlang.call(module, function, args, timeout=timeout)


last_answers: list[Any] = []


class AsksAtItsEnd:
    def __del__(self) -> None:
        last_answers.append(erlang.call("py", "call", ["called", "add", [1, 2]]))


def make_what_asks_at_its_end() -> erlang.Handle:
    return erlang.Handle(AsksAtItsEnd())


async def ask_later(module: str, function: str, args: list[Any]) -> Any:
    return await erlang.async_call(module, function, args)


async def ask_on_the_loop(
    module: str, function: str, args: list[Any], timeout: float | None = None
) -> Any:
    """Blocks the loop."""
    return erlang.call(module, function, args, timeout=timeout)


def ask_in_a_thread(module: str, function: str, args: list[Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(erlang.call(module, function, args)))
    thread.start()
    thread.join()
    return answers[0]


async def ask_and_cancel(module: str, function: str, args: list[Any]) -> str:
    """Cancels the question as soon as Erlang works on it."""
    question = asyncio.ensure_future(erlang.async_call(module, function, args))
    await erlang.async_call("py_questions_SUITE", "await_running", [])
    question.cancel()
    try:
        await question
    except asyncio.CancelledError:
        return "cancelled"
    return "answered"


async def ask_all(count: int, module: str, function: str, args: list[Any]) -> list[str]:
    """How `count` questions at once end."""
    asked = [erlang.async_call(module, function, args) for _ in range(count)]
    ends = await asyncio.gather(*asked, return_exceptions=True)
    return [str(end) for end in ends]


def error_of(module: str, function: str, args: list[Any]) -> tuple[Any, ...]:
    try:
        erlang.call(module, function, args)
    except erlang.Error as error:
        return (error.kind, error.reason, str(error), [tuple(f) for f in error.stacktrace])
    raise AssertionError("no error")


def remote(node: str, module: str, function: str, args: list[Any]) -> Any:
    return erlang.call(module, function, args, node=node)


async def remote_later(node: str, module: str, function: str, args: list[Any]) -> Any:
    return await erlang.async_call(module, function, args, node=node)


def remote_error(node: str, module: str, function: str, args: list[Any]) -> tuple[Any, ...]:
    try:
        erlang.call(module, function, args, node=node)
    except erlang.Error as error:
        return (error.kind, error.reason, [frame.function for frame in error.stacktrace])
    raise AssertionError("no error")


def send(dest: Any, message: Any) -> None:
    erlang.send(dest, message)


def cast(module: str, function: str, args: list[Any]) -> None:
    erlang.cast(module, function, args)


def apply(fun: erlang.Fun, *args: Any) -> Any:
    return fun(*args)


async def apply_later(fun: erlang.Fun, *args: Any) -> Any:
    return await fun.async_call(*args)


def down(depth: int) -> int:
    """Python asks Erlang asks Python, on call threads."""
    if depth == 0:
        return 0
    return 1 + int(erlang.call("py_questions_SUITE", "down", ["down", depth - 1]))


async def down_later(depth: int) -> int:
    """The same on one loop."""
    if depth == 0:
        return 0
    below = await erlang.async_call("py_questions_SUITE", "down", ["down_later", depth - 1])
    return 1 + int(below)


async def down_mixed(depth: int) -> int:
    """Coroutines, plain functions and threads in turn."""
    if depth == 0:
        return 0
    name = ["down_mixed", "down_plain", "down_thread"][depth % 3]
    return 1 + int(await erlang.async_call("py_questions_SUITE", "down", [name, depth - 1]))


def down_plain(depth: int) -> int:
    if depth == 0:
        return 0
    return 1 + int(erlang.call("py_questions_SUITE", "down", ["down_mixed", depth - 1]))


def down_thread(depth: int) -> int:
    if depth == 0:
        return 0
    return 1 + int(ask_in_a_thread("py_questions_SUITE", "down", ["down_mixed", depth - 1]))
