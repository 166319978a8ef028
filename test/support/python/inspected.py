"""What py_inspect_SUITE looks at."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator

import called
import erlang_loop

_running: list[erlang_loop.ErlangEventLoop] = []


async def watch(fd: int) -> None:
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, print)
    try:
        await asyncio.Event().wait()
    finally:
        loop.remove_reader(fd)


async def parent() -> None:
    await between(asyncio.create_task(child(), name="child"))


async def between(task: asyncio.Task[None]) -> None:
    await task


async def child() -> None:
    await asyncio.Event().wait()


async def named_child(name: str) -> None:
    await asyncio.create_task(child(), name=name)


async def groups() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(gathers(), name="gathers")


async def gathers() -> None:
    tasks = (asyncio.create_task(child(), name=name) for name in ("one", "two"))
    await asyncio.gather(*tasks)


async def play(track: str) -> None:
    await asyncio.sleep(3600)
    print(f"Playing {track}")


async def album(name: str, tracks: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for track in tracks:
            group.create_task(play(track), name=track)


async def albums() -> None:
    """The example of `python -m asyncio pstree` in CPython's documentation."""
    async with asyncio.TaskGroup() as group:
        group.create_task(album("Sundowning", ["TNDNBTG", "Levitate"]), name="Sundowning")
        group.create_task(album("TMBTE", ["DYWTYLM", "Aqua Regia"]), name="TMBTE")


async def cycle() -> None:
    """Two tasks that await each other, and one that two await."""
    tasks: list[asyncio.Task[None]] = []

    async def awaits(number: int) -> None:
        await asyncio.wait([tasks[number]])

    for name, number in (("one", 1), ("two", 0), ("three", 4), ("four", 4)):
        tasks.append(asyncio.create_task(awaits(number), name=name))
    tasks.append(asyncio.create_task(child(), name="five"))
    try:
        await asyncio.Event().wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def many(count: int) -> None:
    tasks = [asyncio.create_task(child()) for _ in range(count)]
    await asyncio.sleep(0)
    called.events.append("many started")
    try:
        await asyncio.Event().wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def strange() -> None:
    async with asyncio.TaskGroup() as group:
        for name in ("a \udcff b", "<b>&"):
            group.create_task(child(), name=name)


def run_loop() -> None:
    """A loop that Python runs, until `called.release`."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, erlang_loop.ErlangEventLoop)
        _running.append(loop)
        called.events.append("it runs")
        await asyncio.to_thread(called._release.wait)
        _running.clear()

    called.hold()
    erlang_loop.run(main())


def running_loops() -> list[int]:
    return [loop._number for loop in _running]


def numbers() -> Iterator[int]:
    yield from range(1_000_000)


async def numbers_later() -> AsyncIterator[int]:
    for number in range(1_000_000):
        yield number


# ---- mistakes, for py_lint_SUITE: each returns the line that has it ----


async def forgets_await() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        child()  # type: ignore[unused-coroutine]
    return forgets_await.__code__.co_firstlineno + 3


async def forgets_exception() -> int:
    async def fails() -> None:
        raise KeyError("on purpose")

    asyncio.create_task(fails())  # noqa: RUF006
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return forgets_exception.__code__.co_firstlineno + 2


async def forgets_often(count: int) -> None:
    for _ in range(count):
        await forgets_exception()
