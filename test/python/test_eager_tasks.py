"""Eager tasks and task factories."""

from __future__ import annotations

import asyncio
import sys

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


async def test_names_and_contexts(loop):
    task = loop.create_task(asyncio.sleep(0), name="mine")
    assert task.get_name() == "mine"
    assert loop.get_task_factory() is None
    await task
