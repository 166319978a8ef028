"""The sets that asyncio keeps tasks and connections in: with our methods they do what they did."""

from __future__ import annotations

import asyncio
import sys
import weakref

import pytest
from erlang_loop import _native, compat


class Thing:
    pass


class LaterWeakSet(weakref.WeakSet):
    """As in CPython 3.14: whoever goes through it has a copy, and the dead are out at once."""

    def __init__(self):
        self.data = set()

    def __iter__(self):
        for reference in self.data.copy():
            thing = reference()
            if thing is not None:
                yield thing

    def __len__(self):
        return len(self.data)


@pytest.fixture(params=["python", "native", "native and later"])
def things(request) -> weakref.WeakSet[Thing]:
    later = request.param == "native and later"
    found: weakref.WeakSet[Thing] = LaterWeakSet() if later else weakref.WeakSet()
    if request.param != "python":
        _native.change_natively(found)
        assert {"add", "discard"} <= vars(found).keys()
    return found


def test_those_that_live_are_in_it(things):
    first, second = Thing(), Thing()
    things.add(first)
    things.add(second)
    things.add(second)
    assert set(things) == {first, second}
    del second
    assert list(things) == [first]
    things.discard(first)
    assert not things.data


def test_they_may_die_while_somebody_goes_through(things):
    kept = [Thing() for _ in range(10)]
    for thing in kept:
        things.add(thing)
    del thing
    going = iter(things)
    next(going)
    # Who goes through a set that changes gets a RuntimeError.
    kept.clear()
    assert list(going) == []
    assert not things.data


def test_the_dead_are_out_before_one_comes(things):
    """What died while somebody went through the set, and is still in it."""
    if not hasattr(things, "_pending_removals"):
        pytest.skip("the dead are out at once")
    dead = Thing()
    things.add(dead)
    things._pending_removals.append(next(iter(things.data)))
    new = Thing()
    things.add(new)
    assert list(things) == [new]
    assert things._pending_removals == []
    del dead
    assert list(things) == [new]


def test_one_is_taken_out(things):
    first, second = Thing(), Thing()
    things.add(first)
    things.discard(second)
    assert list(things) == [first]
    if hasattr(things, "_pending_removals"):
        # Of one that died while somebody went through the set.
        things._pending_removals.append(next(iter(things.data)))
        things.discard(second)
        assert things._pending_removals == []
    things.discard(first)
    things.discard(first)
    assert not things.data
    del first


@pytest.mark.parametrize("method", ["add", "discard"])
def test_what_it_refuses(things, method):
    change = getattr(things, method)
    with pytest.raises(TypeError, match="weak reference"):
        change(1)
    for wrong in ((), (Thing(), Thing())):
        with pytest.raises(TypeError):
            change(*wrong)
    with pytest.raises(TypeError):
        change(other=Thing())
    assert not things.data


def test_only_a_set_of_weak_references_gets_it():
    with pytest.raises(AttributeError):
        _native.change_natively({})


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython has a list of its own")
async def test_tasks_are_put_in_by_it(loop):
    known = compat.all_tasks()
    assert "add" in vars(known)
    assert asyncio.current_task() in known
