"""What suites call from Erlang: functions that return, fail, block and outlive their callers."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import ctypes
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import erlang
import erlang_loop

events: list[str] = []
_release = threading.Event()
_blocked = 0


class Greeter:
    """Its methods are called by dotted names."""

    greeting = "hello"

    @classmethod
    def greet(cls, name: str) -> str:
        return f"{cls.greeting} {name}"

    @staticmethod
    async def greet_later(name: str) -> str:
        await asyncio.sleep(0)
        return f"later {name}"


def arguments(*args: Any, last: bool = True) -> tuple[Any, ...]:
    return args


async def arguments_later(*args: Any) -> tuple[Any, ...]:
    return args


class Awaitable:
    """Neither a coroutine nor a future."""

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return "awaited"


def note(event: str) -> None:
    events.append(event)


def take_events() -> list[str]:
    # One by one: another thread may note something between two of them.
    return [events.pop(0) for _ in range(len(events))]


async def take_events_later() -> list[str]:
    return take_events()


def add(a: int, b: int = 10, *, times: int = 1) -> int:
    return (a + b) * times


async def add_later(a: int, b: int = 10) -> int:
    await asyncio.sleep(0.001)
    return a + b


def hold_the_gil() -> None:
    ctypes.PyDLL(None).sleep(1000)


def sleep_long() -> None:
    time.sleep(1000)


async def block_the_loop() -> None:
    sleep_long()


_runs: dict[str, int] = {}


def count_run(file: str, number: int, crash: bool) -> int:
    """Writes the number to the file, which outlives this process."""
    if file not in _runs:
        _runs[file] = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(_runs[file], b"%d\n" % number)
    if crash:
        ctypes.string_at(0)
    return number


async def count_run_later(file: str, number: int, crash: bool) -> int:
    await asyncio.sleep(0)
    return count_run(file, number, crash)


async def note_run(file: str, number: str) -> int:
    """Writes the number to the file, takes a while, and returns the process that it ran in."""
    if file not in _runs:
        _runs[file] = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(_runs[file], number.encode() + b"\n")
    await asyncio.sleep(0.02)
    return os.getpid()


async def watch_something() -> None:
    """For the loop to have its own fds."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    with near, far:
        came = asyncio.Event()
        loop.add_reader(near, came.set)
        far.send(b"x")
        await came.wait()
        loop.remove_reader(near)


def thread_name() -> int:
    return threading.get_ident()


async def loop_thread() -> int:
    return threading.get_ident()


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def make_awaitable() -> Awaitable:
    return Awaitable()


def fail(text: str) -> None:
    raise ValueError(text)


async def fail_later(text: str) -> None:
    await asyncio.sleep(0)
    raise ValueError(text)


def leave(code: int) -> None:
    raise SystemExit(code)


async def leave_later(code: int) -> None:
    await asyncio.sleep(0)
    raise SystemExit(code)


async def leave_now(code: int) -> None:
    raise SystemExit(code)


async def first_step() -> tuple[str, bool, bool]:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    return task.get_name(), task.get_loop() is loop, loop.is_running()


def interrupt() -> None:
    raise KeyboardInterrupt


async def interrupt_later() -> None:
    raise KeyboardInterrupt


def unconvertible() -> Any:
    return threading.Lock()


async def wait_forever(name: str) -> None:
    """Notes that it was cancelled, and where."""
    events.append(f"{name} started")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        events.append(f"{name} cancelled")
        raise


async def tell_and_wait(whom: Any, name: str) -> None:
    """As wait_forever; `whom` gets `waits` as soon as it waits."""
    loop = asyncio.get_running_loop()
    loop.call_soon(erlang.send, whom, erlang.Atom("waits"))
    await wait_forever(name)


async def turn_on_and_on(pause: float) -> None:
    """0: the loop has something to do in every turn."""
    for _ in itertools.count():
        await asyncio.sleep(pause)


async def ignore_cancellation(name: str) -> str:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        events.append(f"{name} went on")
    return "went on"


_arrived = 0


async def meet_at_the_end(name: str, others: int) -> None:
    """When cancelled, waits for this many others that were cancelled, on any loop."""
    global _arrived
    events.append(f"{name} started")
    try:
        await asyncio.sleep(3600)
    finally:
        _arrived += 1
        # The others are on other loops, where no Event of asyncio reaches.
        while _arrived < others:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        events.append(f"{name} met")


def none_arrived() -> None:
    global _arrived
    _arrived = 0


def all_arrived() -> None:
    """No thread waits in meet_at_the_end() any more."""
    global _arrived
    _arrived = 1_000_000


async def end_slowly(name: str, seconds: float) -> None:
    """Its finalizer takes time."""
    events.append(f"{name} started")
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(seconds)
        events.append(f"{name} ended")


async def fail_at_the_end(name: str) -> None:
    """Its finalizer raises."""
    events.append(f"{name} started")
    try:
        await asyncio.sleep(3600)
    finally:
        raise KeyError("in a finalizer")


async def leave_failing_generator() -> None:
    """Leaves an asynchronous generator whose finalizer raises, with the loop's end."""

    async def numbers() -> Any:
        try:
            yield 1
        finally:
            _kept.clear()
            raise KeyError("in a finalizer")

    generator = numbers()
    _kept.append(generator)
    await generator.__anext__()


def forget_coroutine() -> str:
    """Makes a coroutine and never awaits it."""
    add_later(1, 2)  # type: ignore[unused-coroutine]
    return "forgotten"


def hide_coroutine() -> list[Any]:
    """Returns a coroutine where none is expected."""
    return [add_later(1, 2)]


def panic_type() -> type[BaseException]:
    """What a panic in native code looks like in Python; it goes on as a panic in native code."""
    return next(c for c in BaseException.__subclasses__() if c.__name__ == "PanicException")


def panic() -> None:
    raise panic_type()("on purpose")


async def panic_later() -> None:
    await asyncio.sleep(0)
    raise panic_type()("on purpose")


async def refuse_to_end(name: str | None = None) -> None:
    """Cancelling it has no effect."""
    if name == "surrogate":
        # As in the name of a file that is not UTF-8.
        task = asyncio.current_task()
        assert task is not None
        task.set_name(b"a \xff b".decode("utf-8", "surrogateescape"))
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            events.append("refused")


class StubbornFuture(asyncio.Future[Any]):
    def cancel(self, msg: Any = None) -> bool:
        raise ValueError("not me")


stubborn: list[StubbornFuture] = []


async def make_stubborn_future() -> None:
    stubborn.append(StubbornFuture())


def wait_for_stubborn_future() -> Awaitable:
    """Awaited by the loop itself: there is no task in between."""
    return stubborn[-1]


def is_awaited() -> bool:
    return "cb=[" in repr(stubborn[-1])


async def end_stubborn_future(result: str) -> None:
    stubborn.pop().set_result(result)


class RaisingNotes:
    def __iter__(self) -> RaisingNotes:
        return self

    def __next__(self) -> str:
        raise KeyError("no note")


def fail_with_notes(text: str) -> None:
    error = ValueError(text)
    error.__notes__ = RaisingNotes()  # type: ignore[assignment]
    raise error


turns = 0
counted: list[asyncio.AbstractEventLoop] = []


async def count_turns() -> None:
    """Count the turns of this loop; its tasks become futures of when they were made and ran."""
    loop = asyncio.get_running_loop()
    counted.append(loop)

    def turn() -> None:
        global turns
        turns += 1
        if loop.get_task_factory() is not None:
            loop.call_soon(turn)

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **_: Any) -> Any:
        coroutine.close()
        future: asyncio.Future[Any] = loop.create_future()
        made = turns
        loop.call_soon(lambda: future.set_result((made, turns)))
        return future

    loop.set_task_factory(make)
    loop.call_soon(turn)


def count_no_more() -> None:
    loop = counted.pop()
    loop.call_soon_threadsafe(loop.set_task_factory, None)


def block() -> str:
    """Until release() is called."""
    global _blocked
    _blocked += 1
    try:
        _release.wait(30)
    finally:
        _blocked -= 1
    return "released"


def is_blocked() -> bool:
    """Whether a thread is in block()."""
    return _blocked > 0


async def block_loop() -> str:
    """As block(), but it blocks its loop."""
    return block()


def crash() -> None:
    """Ends the process, as an extension module with a fault does."""
    ctypes.string_at(0)


def hold() -> None:
    _release.clear()


def release() -> None:
    _release.set()


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def compute_until_released() -> str:
    """As block(), in Python code that never waits."""
    global _blocked
    rounds = 0
    _blocked += 1
    try:
        while not _release.is_set():
            # Not pass: an interrupt at the end of such a loop can be raised outside of try.
            rounds += 1
    finally:
        _blocked -= 1
    return "released"


async def count_tasks() -> int:
    """Of its loop, itself aside."""
    return len(asyncio.all_tasks()) - 1


async def generate(name: str) -> None:
    """Leaves an asynchronous generator behind, whose finalizer runs with the loop's end."""

    async def numbers() -> Any:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)
            events.append(f"{name} finalized")
            # The loop is known to its generators.
            _kept.clear()

    generator = numbers()
    _kept.append(generator)
    await generator.__anext__()


_kept: list[Any] = []


def changing() -> str:
    return "plain"


def make_changing_async() -> None:
    global changing

    async def changed() -> str:
        return "coroutine"

    changing = changed  # type: ignore[assignment]


def make_changing_plain() -> None:
    global changing

    def changed() -> str:
        return "plain" if not has_running_loop() else "plain on a loop"

    changing = changed


def has_finalized(name: str) -> bool:
    return f"{name} finalized" in events


async def stop_loop() -> None:
    asyncio.get_running_loop().stop()


async def stop_loop_and_note(event: str) -> None:
    """A callback waits for the turn after the one that calls stop()."""
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, note, event)
    loop.stop()


async def mark_loop() -> bool:
    """Whether this loop was marked before."""
    loop = asyncio.get_running_loop()
    marked = hasattr(loop, "marked")
    loop.marked = True  # type: ignore[attr-defined]
    return marked


# ---- loops that are stuck ----


async def sleep_on_the_loop(seconds: float) -> str:
    time.sleep(seconds)  # noqa: ASYNC251
    return "slept"


async def count_in_c(count: int) -> str:
    """One call into C that does not give the GIL away."""
    collections.deque(itertools.repeat(0, count), maxlen=0)
    return "counted"


async def wait_in_c(fd: int) -> int:
    """As count_in_c(), until there is a byte to read."""
    os.set_blocking(fd, True)
    return ctypes.PyDLL(None).read(fd, ctypes.create_string_buffer(1), 1)


async def spin_forever() -> None:
    while True:
        try:
            sum(range(100))
        except Exception:
            continue


async def yield_in_debug_mode() -> str:
    """This step began before that mode: there is no Python code below what makes the next one."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    try:
        await asyncio.sleep(0)
    finally:
        loop.set_debug(False)
    return "yielded"


async def block_beside_others(seconds: float, debug: bool) -> list[str]:
    """What the others have of a callback that blocks in C, and has no Python code after that."""
    loop = asyncio.get_running_loop()
    loop.set_debug(debug)
    errors: list[str] = []
    loop.set_exception_handler(lambda _, context: errors.append(repr(context["exception"])))

    async def other() -> None:
        try:
            for _ in range(20):
                await asyncio.sleep(0.01)
        except BaseException as error:
            errors.append(repr(error))
            raise

    others = [asyncio.ensure_future(other()) for _ in range(5)]
    await asyncio.sleep(0)
    loop.call_soon(time.sleep, seconds)
    _, left = await asyncio.wait(others, timeout=20)
    loop.set_debug(False)
    return errors + [repr(task) for task in left]


async def block_then_compute(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251
    while True:
        pass


async def many_short_callbacks(seconds: float) -> list[str]:
    """A turn that lasts, none of whose callbacks does."""
    loop = asyncio.get_running_loop()
    errors: list[str] = []
    loop.set_exception_handler(lambda _, context: errors.append(repr(context["exception"])))
    ended = loop.create_future()

    def short() -> None:
        end = time.monotonic() + 0.002
        while time.monotonic() < end:
            pass

    for _ in range(int(seconds / 0.002)):
        loop.call_soon(short)
    loop.call_soon(ended.set_result, None)
    await ended
    return errors


_who: contextvars.ContextVar[int] = contextvars.ContextVar("who", default=0)


def swap_variable(value: int) -> int:
    """What the context variable was, and is no longer: of this call only."""
    before = _who.get()
    _who.set(value)
    return before


def iterate_in_context(value: int, times: int) -> Iterator[int]:
    """What it set stays its own, from one item to the next."""
    _who.set(value)
    for _ in range(times):
        yield _who.get()


def run_a_loop(seconds: float) -> str:
    """A loop of its own, which ends when its one task has slept."""
    return erlang_loop.run(asyncio.sleep(seconds, "slept"))


def run_a_loop_that_blocks() -> str:
    return erlang_loop.run(block_loop())


_spinning = True


async def spin_until_interrupted() -> None:
    note("spins")
    while _spinning:
        pass


def end_spinning() -> None:
    global _spinning
    _spinning = False
