"""Is the whole chain of awaits seen, and who awaits whom?"""

import asyncio

import pytest
from erlang_loop import awaits


def chain(task):
    return [frame.f_code.co_qualname.rpartition(".")[2] for frame in awaits.frames(task.get_coro())]


def awaited_by(task):
    return {each.get_name() for each in awaits.awaiters(task)}


async def started(*coroutines):
    tasks = [asyncio.create_task(each, name=each.__name__) for each in coroutines]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def ended(*tasks):
    """All of them, and those that they started."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*tasks, *left, return_exceptions=True)


def test_a_chain_of_coroutines_is_followed_to_its_end(loop):
    async def outer():
        await middle()

    async def middle():
        await inner()

    async def inner():
        await asyncio.Event().wait()

    async def main():
        (task,) = await started(outer())
        assert chain(task) == ["outer", "middle", "inner", "wait"]
        await ended(task)
        assert chain(task) == []

    loop.run_until_complete(main())


def test_it_passes_through_generators_and_objects(loop):
    class Awaitable:
        def __await__(self):
            return (yield from inner().__await__())

    async def numbers():
        await Awaitable()
        yield 1

    async def inner():
        await asyncio.Event().wait()

    async def outer():
        async for _ in numbers():
            pass

    async def by_hand():
        await anext(numbers(), None)

    async def main():
        tasks = await started(outer(), by_hand())
        rest = ["numbers", "__await__", "inner", "wait"]
        assert [chain(task) for task in tasks] == [["outer", *rest], ["by_hand", *rest]]
        await ended(*tasks)

    loop.run_until_complete(main())


def test_a_deep_chain_keeps_both_ends(loop):
    async def deep(left):
        await (deep(left - 1) if left else asyncio.Event().wait())

    async def main():
        task = asyncio.create_task(deep(700))
        await asyncio.sleep(0)
        found = chain(task)
        assert len(found) == awaits.MAX_FRAMES
        assert found[-1] == "wait"
        await ended(task)

    loop.run_until_complete(main())


async def sleeper():
    await asyncio.Event().wait()


async def by_await(task):
    await task


async def by_gather(task):
    await asyncio.gather(task, asyncio.get_running_loop().create_future())


async def by_shield(task):
    await asyncio.shield(task)


async def by_wait(task):
    await asyncio.wait([task])


async def by_wait_for(task):
    await asyncio.wait_for(task, 60)


async def by_as_completed(task):
    for each in asyncio.as_completed([task]):
        await each


async def by_all(task):
    await asyncio.gather(asyncio.gather(task), sleeper())


@pytest.mark.parametrize(
    "way", [by_await, by_gather, by_shield, by_wait, by_wait_for, by_as_completed, by_all]
)
def test_who_awaits_a_task(loop, way):
    async def main():
        (task,) = await started(sleeper())
        assert awaited_by(task) == set()
        others = await started(way(task), by_await(task))
        assert awaited_by(task) == {way.__name__, "by_await"}
        assert awaited_by(others[0]) == set()
        await ended(task, *others)

    loop.run_until_complete(main())


def test_the_parent_of_a_task_group_awaits_its_tasks(loop):
    async def parent():
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper(), name="child")

    async def main():
        (task,) = await started(parent())
        (child,) = (each for each in asyncio.all_tasks() if each.get_name() == "child")
        assert awaited_by(child) == {"parent"}
        await ended(task)

    loop.run_until_complete(main())


def test_tasks_that_await_each_other_are_seen(loop):
    async def one():
        await asyncio.wait([tasks[1]])

    async def two():
        await asyncio.wait([tasks[0]])

    tasks = []

    async def main():
        for coroutine in (one(), two()):
            tasks.append(asyncio.create_task(coroutine, name=coroutine.__name__))
        await asyncio.sleep(0)
        assert [awaited_by(task) for task in tasks] == [{"two"}, {"one"}]
        await ended(*tasks)

    loop.run_until_complete(main())
