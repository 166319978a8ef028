"""create_task and create_future return asyncio's own objects, however they are called."""

from __future__ import annotations

import asyncio
import contextvars

import pytest


async def value(what: object) -> object:
    await asyncio.sleep(0)
    return what


async def test_plain(loop):
    task = loop.create_task(value(1))
    assert type(task) is asyncio.Task
    assert task.get_loop() is loop
    assert task.get_name().startswith("Task-")
    assert await task == 1
    future = loop.create_future()
    assert type(future) is asyncio.Future
    assert future.get_loop() is loop
    future.set_result(2)
    assert await future == 2


async def test_named(loop):
    assert loop.create_task(value(1), name="mine").get_name() == "mine"
    assert loop.create_task(coro=value(1)).get_name() != "mine"
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_in_a_context(loop):
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    context = contextvars.copy_context()

    async def change() -> None:
        variable.set(7)

    await loop.create_task(change(), context=context)
    assert context[variable] == 7
    assert variable.get(None) is None


async def test_factory(loop):
    made = []

    def factory(its_loop, coroutine, **options):
        made.append(its_loop)
        return asyncio.Task(coroutine, loop=its_loop, **options)

    loop.set_task_factory(factory)
    assert loop.get_task_factory() is factory
    assert await loop.create_task(value(1)) == 1
    loop.set_task_factory(None)
    assert loop.get_task_factory() is None
    assert await loop.create_task(value(2)) == 2
    assert made == [loop]
    with pytest.raises(TypeError):
        loop.set_task_factory("factory")


async def test_wrong_arguments(loop):
    with pytest.raises(TypeError):
        loop.create_task()
    with pytest.raises(TypeError):
        loop.create_task(1)
    coroutine = value(1)
    with pytest.raises(TypeError):
        loop.create_task(coroutine, why=1)
    coroutine.close()
    with pytest.raises(TypeError):
        loop.create_future(1)


async def test_replaced_classes_are_used(loop, monkeypatch):
    class Task(asyncio.Task):
        pass

    class Future(asyncio.Future):
        pass

    monkeypatch.setattr(asyncio.tasks, "Task", Task)
    monkeypatch.setattr(asyncio.futures, "Future", Future)
    task = loop.create_task(value(1))
    assert type(task) is Task
    assert type(loop.create_future()) is Future
    await task


async def test_debug_mode_remembers_where_a_task_was_made(loop):
    loop.set_debug(True)
    task = loop.create_task(value(1))
    assert task._source_traceback[-1].name == "test_debug_mode_remembers_where_a_task_was_made"
    await task
    loop.set_debug(False)


def test_closed_loop_takes_none(loop):
    loop.close()
    coroutine = value(1)
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.create_task(coroutine)
    coroutine.close()


async def test_all_tasks(loop):
    """Those that have not ended, however they were created."""
    before = asyncio.all_tasks()
    assert asyncio.current_task() in before
    tasks = {loop.create_task(value(1)), asyncio.ensure_future(value(2))}
    assert asyncio.all_tasks() == before | tasks
    assert asyncio.all_tasks(loop) == asyncio.all_tasks()
    await asyncio.gather(*tasks)
    assert asyncio.all_tasks() == before
