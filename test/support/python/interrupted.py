"""Plain functions that are interrupted: what py_interrupt_SUITE calls."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import erlang
from called import note


def spin(name: str = "spin") -> None:
    """Computes until it is interrupted, and does not notice that as an exception of a program."""
    note(f"{name} begins")
    try:
        while True:
            try:
                sum(range(100))
            except Exception:
                note("caught")
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


def spin_for(seconds: float) -> str:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return "done"


def protected(whom: Any, name: str) -> None:
    """The interrupt is sent in the inner block, and raised at the end of the outer one."""
    seen = []
    try:
        with erlang.uninterruptible():
            with erlang.uninterruptible():
                erlang.send(whom, erlang.Atom("protected"))
                _released.wait(30)
                spin_for(0.1)
                seen.append("inner")
            spin_for(0.05)
            seen.append("outer")
        spin_for(0.05)
        seen.append("behind")
    except erlang.Interrupted:
        seen.append("interrupted")
    note(f"{name}: {' '.join(seen)}")


@erlang.uninterruptible()
def protected_function() -> str:
    return spin_for(0.01)


def misuse() -> str:
    """Without a caller that waits there is nothing to protect from."""
    with erlang.uninterruptible():
        return protected_function()


_released = threading.Event()


def hold() -> None:
    _released.clear()


def release() -> None:
    _released.set()


def wait_for_erlang(name: str) -> None:
    try:
        erlang.call("timer", "sleep", [erlang.Atom("infinity")])
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


def receive_nothing(name: str) -> None:
    try:
        erlang.receive()
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


def sleep_then_note(seconds: float, name: str) -> None:
    try:
        time.sleep(seconds)
        note(f"{name} went on")
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


def refuse(times: int, name: str) -> None:
    """Catches this many interrupts."""
    for _ in range(times):
        try:
            while True:
                pass
        except erlang.Interrupted:
            note(f"{name} refused")
    note(f"{name} ended")


async def compute() -> None:
    while True:
        sum(range(100))


def run_loop(what: str, name: str) -> None:
    """Runs a loop with two tasks until it is interrupted."""

    async def other() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            note(f"{name} other cancelled")
            raise

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        tasks = [asyncio.create_task(other())]
        await asyncio.sleep(0)
        note(f"{name} begins")
        if what == "compute":
            await compute()
        elif what == "compute_elsewhere":
            tasks.append(asyncio.create_task(compute()))
        elif what == "callbacks":
            loops[0].call_soon(call_again)
        await asyncio.sleep(3600)

    def call_again() -> None:
        loops[0].call_soon(call_again)

    loops: list[asyncio.AbstractEventLoop] = []
    try:
        asyncio.run(main())
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")
        if loops[0].is_closed():
            note(f"{name} closed")


def run_protected_loop(name: str) -> None:
    async def main() -> None:
        note(f"{name} begins")
        await asyncio.sleep(0.1)
        note(f"{name} finished")

    try:
        with erlang.uninterruptible():
            asyncio.run(main())
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


def run_add(a: int, b: int) -> int:
    async def add() -> int:
        await asyncio.sleep(0)
        return a + b

    return asyncio.run(add())


def protect_in_finally(name: str) -> None:
    """What was raised once is not raised again at the end of the block."""
    note(f"{name} begins")
    try:
        while True:
            pass
    finally:
        with erlang.uninterruptible():
            pass
        note(f"{name} cleaned up")


def spin_in_finally(blocks: int, name: str) -> None:
    """Each interrupt ends a block and begins the next one, which is within its finally-block."""
    note(f"{name} {blocks} begins")
    try:
        while True:
            pass
    finally:
        if blocks > 1:
            spin_in_finally(blocks - 1, name)
        else:
            note(f"{name} ended by {interrupts_in(sys.exc_info()[1])}")


def interrupts_in(error: BaseException | None) -> int:
    """How many interrupts are in the chain of contexts."""
    count = 0
    while isinstance(error, erlang.Interrupted):
        count, error = count + 1, error.__context__
    return count


def nest(depth: int, name: str, timeout: int | None) -> Any:
    """Calls itself through Erlang. The innermost call computes."""
    if depth == 0:
        return spin(name)
    try:
        args = [depth - 1, name, None]
        waits = erlang.Atom("infinity") if timeout is None else timeout
        return erlang.call("py", "call", ["interrupted", "nest", args, {}, waits])
    finally:
        note(f"level {depth} ended by {type(sys.exc_info()[1]).__name__}")


class Finalized:
    """An interrupt is most likely raised in its finalizer, where Python ignores exceptions."""

    def __del__(self) -> None:
        spin_for(0.02)


def spin_in_finalizers(name: str) -> None:
    try:
        while True:
            Finalized()
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


class SpinningError(Exception):
    def __str__(self) -> str:
        spin("text")
        return "never"


def fail_and_spin() -> None:
    raise SpinningError


def import_and_spin(name: str) -> None:
    """Imports a module whose code computes until it is interrupted, at the first time."""
    try:
        importlib.import_module("spinning_module")
    finally:
        note(f"{name} ended by {type(sys.exc_info()[1]).__name__}")


def has_spinning_module() -> bool:
    return "spinning_module" in sys.modules


def count_and_spin(name: str) -> Iterator[int]:
    """The second item never comes."""
    try:
        yield 0
        spin(name)
    finally:
        note(f"{name} closed")


def close_and_spin(name: str) -> Iterator[int]:
    """Its end never comes."""
    try:
        yield 0
        yield 1
    finally:
        spin(name)


def interrupts_elsewhere() -> str:
    """For the next call on a thread: an interrupt that was meant for another would end it."""
    for _ in range(50):
        sum(range(20))
    return "undisturbed"
