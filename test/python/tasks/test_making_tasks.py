"""How tasks are made: names, contexts, factories, eager ones."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import weakref

import pytest


async def test_task_factory(loop):
    made = []

    def factory(loop, coroutine, **options):
        task = asyncio.Task(coroutine, loop=loop, **options)
        made.append(task)
        return task

    loop.set_task_factory(factory)
    assert loop.get_task_factory() is factory
    task = asyncio.ensure_future(asyncio.sleep(0, "result"))
    assert made == [task]
    assert await task == "result"
    loop.set_task_factory(None)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in 3.12")
async def test_eager_tasks(loop):
    loop.set_task_factory(asyncio.eager_task_factory)
    try:
        ran = []

        async def quick() -> str:
            ran.append("quick")
            return "done"

        async def slow() -> str:
            ran.append("slow")
            await asyncio.sleep(0.001)
            return "slept"

        task = asyncio.ensure_future(quick())
        assert ran == ["quick"]
        assert task.done()
        assert await task == "done"
        task = asyncio.ensure_future(slow())
        assert ran == ["quick", "slow"]
        assert not task.done()
        assert await task == "slept"
        assert asyncio.current_task() is not task
    finally:
        loop.set_task_factory(None)


class Name:
    """What becomes a name by `str`."""

    def __str__(self) -> str:
        return "made"


@pytest.mark.parametrize(
    ("name", "expected"), [("mine", "mine"), ("", ""), (7, "7"), (Name(), "made")]
)
async def test_names(loop, name, expected):
    task = loop.create_task(asyncio.sleep(0, 1), name=name)
    assert task.get_name() == expected
    assert await task == 1


async def test_no_name(loop):
    made = [loop.create_task(asyncio.sleep(0), **options) for options in ({}, {"name": None})]
    made.append(asyncio.create_task(asyncio.sleep(0)))
    numbers = [int(task.get_name().removeprefix("Task-")) for task in made]
    assert numbers == sorted(set(numbers))
    await asyncio.gather(*made)


async def test_a_name_is_not_kept(loop):
    name = Name()
    seen = weakref.ref(name)
    await loop.create_task(asyncio.sleep(0), name=name)
    del name
    assert seen() is None


@pytest.mark.parametrize("name", [{}, {"name": None}, {"name": "mine"}])
async def test_contexts(loop, name):
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    async def add() -> int:
        variable.set(variable.get() + 1)
        return variable.get()

    context = contextvars.Context()
    context.run(variable.set, 40)
    assert await loop.create_task(add(), context=context, **name) == 41
    assert await asyncio.create_task(add(), context=context, **name) == 42
    assert await loop.create_task(add(), context=None, **name) == 1
    assert context[variable] == 42
    assert variable.get() == 0


async def test_task_groups(loop):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.sleep(0, n), name=f"n{n}") for n in range(3)]
    assert [task.result() for task in tasks] == [0, 1, 2]
    assert [task.get_name() for task in tasks] == ["n0", "n1", "n2"]


async def test_a_task_factory_receives_names(loop):
    made = []

    def factory(loop, coroutine, **options):
        made.append(options)
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        task = loop.create_task(asyncio.sleep(0), name="mine")
        assert task.get_name() == "mine"
        await task
    finally:
        loop.set_task_factory(None)
    assert len(made) == 1


@pytest.mark.parametrize("options", [{"nonsense": 1}, {"name": "x", "nonsense": 1}])
async def test_unknown_options(loop, options):
    coroutine = asyncio.sleep(0)
    with pytest.raises(TypeError, match="nonsense"):
        loop.create_task(coroutine, **options)
    coroutine.close()


async def test_wrong_arguments(loop):
    for arguments, options in ((), {}), ((), {"name": "x"}), ((1,), {}), ((1,), {"name": "x"}):
        with pytest.raises(TypeError):
            loop.create_task(*arguments, **options)
    coroutine = asyncio.sleep(0, "named")
    with pytest.raises(TypeError):
        loop.create_task(coroutine, "x")
    assert await loop.create_task(coro=coroutine) == "named"


async def test_debug_mode(loop):
    loop.set_debug(True)
    try:
        task = loop.create_task(asyncio.sleep(0), name="mine")
        assert task.get_name() == "mine"
        await task
    finally:
        loop.set_debug(False)
