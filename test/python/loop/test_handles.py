"""call_soon and similar methods: arguments, order, and the life of handles."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest


async def test_any_number_of_arguments(loop):
    got: list[tuple[int, ...]] = []
    for count in range(9):
        loop.call_soon(lambda *given: got.append(given), *range(count))
    await asyncio.sleep(0)
    assert got == [tuple(range(count)) for count in range(9)]


async def test_arguments_of_a_handle(loop):
    handles = [loop.call_soon(print, *range(count)) for count in (0, 1, 3)]
    assert [handle._args for handle in handles] == [(), (0,), (0, 1, 2)]
    assert {handle._callback for handle in handles} == {print}
    for handle in handles:
        handle.cancel()
        assert handle.cancelled()
        assert handle._args is None


async def test_callback_by_name(loop):
    got = []
    loop.call_soon(callback=lambda: got.append("soon"))
    loop.call_soon_threadsafe(callback=lambda: got.append("safe"))
    loop.call_later(delay=0, callback=lambda: got.append("later"))
    loop.call_at(loop.time(), callback=lambda: got.append("at"))
    while len(got) < 4:
        await asyncio.sleep(0)
    assert sorted(got) == ["at", "later", "safe", "soon"]


@pytest.mark.parametrize("name", ["call_soon", "call_soon_threadsafe"])
async def test_wrong_arguments(loop, name):
    method = getattr(loop, name)
    for arguments, named in [((), {}), ((print,), {"callback": print}), ((print,), {"why": 1})]:
        with pytest.raises(TypeError, match=name):
            method(*arguments, **named)
    for method in (loop.call_later, loop.call_at):
        with pytest.raises(TypeError, match=method.__name__):
            method(callback=print)
    with pytest.raises(TypeError):
        loop.call_later("1", print)


async def test_given_context_and_none(loop):
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    got = []
    loop.call_soon(lambda: got.append(variable.get()), context=context)
    loop.call_soon(lambda: got.append(variable.get()), context=None)
    handle = loop.call_soon(lambda value: got.append(value + variable.get()), "+", context=context)
    assert handle._context is context
    await asyncio.sleep(0)
    assert got == ["inside", "outside", "+inside"]


async def test_a_handle_that_is_kept_stays_what_it_was(loop):
    ran = []
    kept = [loop.call_soon(ran.append, number) for number in range(100)]
    await asyncio.sleep(0)
    for _ in range(3):
        for number in range(300):
            loop.call_soon(ran.append, -number)
        await asyncio.sleep(0)
    assert ran[:100] == list(range(100))
    assert len(set(map(id, kept))) == 100
    assert not any(handle.cancelled() for handle in kept)
    kept[0].cancel()
    again = loop.call_soon(ran.append, "again")
    assert not again.cancelled()
    await asyncio.sleep(0)
    assert ran[-1] == "again"


async def test_weak_references_to_handles_end(loop):
    handles = [loop.call_soon(int) for _ in range(50)]
    dead = []
    weak = [weakref.ref(handle, dead.append) for handle in handles]
    await asyncio.sleep(0)
    handles.clear()
    assert {id(reference) for reference in dead} == {id(reference) for reference in weak}
    fresh = [loop.call_soon(int) for _ in range(50)]
    assert all(reference() is None for reference in weak)
    assert len(fresh) == 50
    await asyncio.sleep(0)


async def test_references_of_a_callback_are_dropped(loop):
    class Held:
        def method(self, *args: object) -> None:
            pass

    held, argument = Held(), Held()
    weak = weakref.ref(held), weakref.ref(argument)
    handle = loop.call_soon(held.method, argument)
    del held, argument
    await asyncio.sleep(0)
    assert (weak[0](), weak[1]()) == (None, None) or handle._callback is not None
    del handle
    gc.collect()
    assert (weak[0](), weak[1]()) == (None, None)


async def test_cancelled_by_an_earlier_callback_of_the_turn(loop):
    ran = []
    handles = []

    def cancel() -> None:
        handles[0].cancel()

    loop.call_soon(cancel)
    handles.append(loop.call_soon(ran.append, "cancelled"))
    loop.call_soon(ran.append, "runs")
    await asyncio.sleep(0)
    assert ran == ["runs"]


async def test_from_many_threads(loop):
    """Each thread's callbacks run in its order, and none is lost."""
    got: dict[int, list[int]] = {number: [] for number in range(4)}
    done = asyncio.Event()

    def work(number: int) -> None:
        for count in range(2_000):
            loop.call_soon_threadsafe(got[number].append, count)
        loop.call_soon_threadsafe(count_down)

    left = len(got)

    def count_down() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in got]
    for thread in threads:
        thread.start()
    await done.wait()
    for thread in threads:
        thread.join()
    assert all(counts == list(range(2_000)) for counts in got.values())


def test_closed_loop_takes_none(loop):
    loop.close()
    for call in (
        lambda: loop.call_soon(print),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.call_later(1, print),
        lambda: loop.call_at(1, print),
    ):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call()
