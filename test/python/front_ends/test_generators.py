"""Do tasks that are generators suspend and continue, and does an error end only its own task?"""

from __future__ import annotations

import contextvars
import logging
import threading
import time

import pytest
from erlang_loop.generators import (
    READ,
    WRITE,
    GeneratorLoop,
    TaskCancelledError,
    in_pool,
    join,
    sleep,
)
from fronts import pair, turn

pytestmark = pytest.mark.ours


def test_they_really_suspend(generators):
    """Two tasks take turns; helpers that return before they yield would run one to its end."""
    order: list[str] = []

    def task(name: str):
        for number in range(3):
            order.append(f"{name}{number}")
            yield from sleep(0)

    one, two = generators.create_task(task("a")), generators.create_task(task("b"))

    def both():
        yield from join(one)
        yield from join(two)

    generators.run_until_complete(both())
    assert order == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_tasks_may_yield_plain_tuples(generators):
    """What the helpers yield, a task may yield itself."""
    with pair() as (near, far):

        def task():
            yield ("sleep", 0.001)
            yield ("write", far)
            far.send(b"x")
            yield ("read", near)
            return near.recv(9)

        assert generators.run_until_complete(task()) == b"x"


def test_read_and_write_stand_for_the_words(generators):
    with pair() as (near, far):

        def task():
            received = b""
            for part in (b"a", b"b"):
                yield (WRITE, far)
                far.send(part)
                yield (READ, near, 5)
                received += near.recv(9)
            with pytest.raises(TimeoutError):
                yield (READ, near, 0.001)
            with pytest.raises(TypeError, match="cannot wait for"):
                yield (READ + WRITE, near)
            return received

        assert generators.run_until_complete(task()) == b"ab"


def test_sleep_is_never_short(generators):
    def task():
        begun = time.monotonic()
        yield from sleep(0.02)
        return time.monotonic() - begun

    assert generators.run_until_complete(task()) >= 0.02


def test_join_returns_and_raises(generators):
    def inner(fails: bool):
        yield from sleep(0)
        if fails:
            raise ValueError("inner")
        return 7

    def outer():
        one = generators.create_task(inner(False))
        two = generators.create_task(inner(True))
        with pytest.raises(ValueError, match="inner"):
            yield from join(two)
        answer = yield from join(one)
        again = yield from join(one)
        return answer + again

    assert generators.run_until_complete(outer()) == 14


def test_in_pool(generators):
    def task():
        name = yield from in_pool(lambda: threading.current_thread().name)
        with pytest.raises(ValueError):
            yield from in_pool(int, "x")
        return name

    assert generators.run_until_complete(task()).startswith("erlang_loop-pool")


@pytest.mark.parametrize(
    "request_", [None, 7, (), ("fly",), ("sleep",), ("sleep", "long"), ("read", "x"), ("join", 1)]
)
def test_a_wrong_request_is_raised_where_it_was_made(generators, request_):
    def task():
        with pytest.raises((TypeError, AttributeError, ValueError)):
            yield request_
        yield from sleep(0)
        return "went on"

    assert generators.run_until_complete(task()) == "went on"


def test_create_task_wants_a_generator(generators):
    with pytest.raises(TypeError, match="a generator was expected"):
        generators.create_task(print)


def test_an_error_ends_only_its_task(generators, unhandled):
    def bad():
        yield from sleep(0)
        raise ValueError("bad")

    def good():
        yield from sleep(0.01)
        return "good"

    task = generators.create_task(bad(), name="the bad one")
    assert generators.run_until_complete(good()) == "good"
    report = unhandled.pop()
    assert str(report["exception"]) == "bad"
    assert report["task"] is task
    assert "bad() of the bad one at " in report["message"]
    with pytest.raises(ValueError):
        task.result()


# ---- cancelling and the end ----


def test_cancel(generators):
    ended: list[str] = []

    def waiting(name: str, request: tuple):
        try:
            yield request
        finally:
            ended.append(name)

    with pair() as (near, _far):
        tasks = [
            generators.create_task(waiting("read", ("read", near))),
            generators.create_task(waiting("sleep", ("sleep", 3600))),
        ]

        def main():
            yield from sleep(0)
            for task in tasks:
                assert task.cancel()
            for task in tasks:
                with pytest.raises(TaskCancelledError):
                    yield from join(task)
            assert not tasks[0].cancel()

        generators.run_until_complete(main())
        assert near.fileno() not in generators.asyncio_loop._watched_fds()
    assert ended == ["read", "sleep"]


def test_a_task_that_cancels_itself(generators):
    def main():
        task.cancel()
        yield from sleep(3600)

    task = generators.create_task(main())
    turn(generators)
    assert task.done()
    assert task.cancelled()


def test_shutdown_ends_tasks(nothing_left):
    ended: list[str] = []

    def forever(name: str):
        try:
            while True:
                yield from sleep(3600)
        finally:
            ended.append(name)

    with GeneratorLoop() as loop:
        loop.create_task(forever("a"))
        loop.create_task(forever("b"))
        turn(loop)
        assert len(loop.all_tasks()) == 2
    assert sorted(ended) == ["a", "b"]
    assert loop.all_tasks() == set()


def test_close_ends_tasks_too(nothing_left):
    ended: list[str] = []

    def forever():
        try:
            yield from sleep(3600)
        finally:
            ended.append("ended")

    loop = GeneratorLoop()
    loop.create_task(forever())
    turn(loop)
    loop.close()
    assert ended == ["ended"]


def test_contexts(generators):
    """A task has one context, whatever it waits for."""
    variable = contextvars.ContextVar("variable", default=0)

    def task():
        seen = []
        with pair() as (near, far):
            far.send(b"x")
            both = [("read", near), ("write", near)]
            requests = [*both, ("sleep", 0), ("pool", int, ()), *both]
            for number, request in enumerate(requests):
                variable.set(number)
                yield request
                seen.append(variable.get())
        return seen

    assert generators.run_until_complete(task()) == [0, 1, 2, 3, 4, 5]
    assert variable.get() == 0


def test_a_step_that_blocks_is_named(generators, caplog):
    def slow():
        yield from sleep(0)
        time.sleep(0.06)

    generators.set_blocking_threshold(0.05)
    generators.run_until_complete(slow())
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "slow() of Task-" in record.getMessage()
    assert __file__ in record.getMessage()
