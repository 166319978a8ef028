"""`erlang_asyncio`: is it asyncio, on every loop, and does `sleep` never block the loop?"""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
import threading
import time

import erlang_asyncio
import pytest
from command import PYTHON, ROOT, run
from erlang_loop import ErlangEventLoop

#: What the reference names.
NAMES = [
    *["sleep", "run", "gather", "wait_for", "create_task", "wait", "ensure_future", "shield"],
    *["get_event_loop", "new_event_loop", "set_event_loop", "get_running_loop", "timeout"],
    *["TimeoutError", "CancelledError", "ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"],
]


def test_every_name_of_the_reference_is_there() -> None:
    assert sorted(erlang_asyncio.__all__) == sorted(NAMES)
    for name in NAMES:
        assert hasattr(erlang_asyncio, name)
    page = (ROOT / "docs" / "erlang_asyncio.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}" not in page] == []


def test_exceptions_and_constants_are_those_of_asyncio() -> None:
    """So that `except` and `return_when` of other code understand them."""
    for name in NAMES[-5:]:
        assert getattr(erlang_asyncio, name) is getattr(asyncio, name)


def test_documented_signatures() -> None:
    def parameters(name: str) -> list[str]:
        return list(inspect.signature(getattr(erlang_asyncio, name)).parameters)

    assert parameters("sleep") == ["delay", "result"]
    assert parameters("gather") == ["coros_or_futures", "return_exceptions"]
    assert parameters("wait") == ["fs", "timeout", "return_when"]
    # From Python 3.14 on asyncio itself passes on what it is given.
    named = sys.version_info < (3, 14)
    assert parameters("create_task")[:2] == ["coro", "name" if named else "kwargs"]
    assert parameters("ensure_future") == ["coro_or_future", "loop"]


# sleep


async def test_sleep_never_ends_early(loop) -> None:
    for delay in (0.0002, 0.001, 0.0035, 0.02, 0.12):
        began = time.monotonic()
        assert await erlang_asyncio.sleep(delay, "result") == "result"
        assert time.monotonic() - began >= delay


async def test_sleeping_blocks_no_other_task(loop) -> None:
    """A thousand sleeps take as long as one, and the loop turns meanwhile."""
    turns = 0

    async def busy() -> None:
        nonlocal turns
        while True:
            turns += 1
            await erlang_asyncio.sleep(0)

    other = erlang_asyncio.create_task(busy())
    began = time.monotonic()
    slept = await erlang_asyncio.gather(*(erlang_asyncio.sleep(0.1, n) for n in range(1000)))
    # One after another they would take 100 seconds.
    assert time.monotonic() - began < 10
    assert slept == list(range(1000))
    assert turns > 100
    other.cancel()
    with pytest.raises(erlang_asyncio.CancelledError):
        await other


async def test_no_sleep_lets_others_run(loop) -> None:
    order: list[str] = []
    loop.call_soon(order.append, "other")
    await erlang_asyncio.sleep(0)
    await erlang_asyncio.sleep(-1)
    assert order == ["other"]


async def test_a_sleep_can_be_cancelled(loop) -> None:
    sleeping = erlang_asyncio.create_task(erlang_asyncio.sleep(3600), name="sleeper")
    await erlang_asyncio.sleep(0)
    sleeping.cancel()
    with pytest.raises(erlang_asyncio.CancelledError):
        await sleeping
    assert sleeping.get_name() == "sleeper"


@pytest.mark.parametrize(("delay", "error"), [(math.nan, ValueError), ("1", TypeError)])
async def test_nonsense_is_refused(loop, delay: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        await erlang_asyncio.sleep(delay)


# run, and the loop of a thread


@pytest.mark.ours
def test_run_uses_our_loop() -> None:
    async def main() -> asyncio.AbstractEventLoop:
        await erlang_asyncio.sleep(0.001)
        return erlang_asyncio.get_running_loop()

    loop = erlang_asyncio.run(main())
    assert type(loop) is ErlangEventLoop
    assert loop.is_closed()


def test_run_refuses_what_is_not_a_coroutine() -> None:
    with pytest.raises((TypeError, ValueError)):
        erlang_asyncio.run(42)


async def test_run_refuses_to_run_inside_a_loop(loop) -> None:
    main = erlang_asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="running event loop"):
        erlang_asyncio.run(main)
    main.close()


async def test_get_event_loop_is_the_running_one(loop) -> None:
    assert erlang_asyncio.get_event_loop() is loop


def test_get_event_loop_makes_one_for_any_thread() -> None:
    """asyncio's own does so on the main thread only, and from Python 3.14 on not at all."""
    found: list[asyncio.AbstractEventLoop] = []

    def work() -> None:
        loop = erlang_asyncio.get_event_loop()
        found.extend([loop, erlang_asyncio.get_event_loop()])
        loop.run_until_complete(erlang_asyncio.sleep(0.001))
        loop.close()
        found.append(erlang_asyncio.get_event_loop())
        found[-1].close()
        erlang_asyncio.set_event_loop(None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    first, again, after = found
    assert type(first) is ErlangEventLoop
    assert first is again
    assert after is not first


def test_get_event_loop_leaves_a_chosen_loop_alone() -> None:
    chosen = asyncio.SelectorEventLoop()
    erlang_asyncio.set_event_loop(chosen)
    try:
        assert erlang_asyncio.get_event_loop() is chosen
        assert chosen.run_until_complete(erlang_asyncio.sleep(0.001, "slept")) == "slept"
    finally:
        erlang_asyncio.set_event_loop(None)
        chosen.close()


def test_outside_a_node_the_import_says_what_to_do() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import erlang_asyncio"
    ended = run(PYTHON, "-c", code)
    assert ended.code == 1
    last = ended.err.splitlines()[-1]
    assert last.startswith("ImportError: erlang_asyncio works inside an Erlang node: run your")


# waiting


async def test_wait_for(loop) -> None:
    assert await erlang_asyncio.wait_for(erlang_asyncio.sleep(0, 1), timeout=60) == 1
    with pytest.raises(erlang_asyncio.TimeoutError):
        await erlang_asyncio.wait_for(asyncio.Event().wait(), timeout=0.001)


async def test_gather_with_exceptions(loop) -> None:
    async def fail() -> None:
        raise KeyError("x")

    one, two = await erlang_asyncio.gather(
        erlang_asyncio.sleep(0.001, 1), fail(), return_exceptions=True
    )
    assert one == 1
    assert isinstance(two, KeyError)


async def test_wait_for_the_first(loop) -> None:
    slow = erlang_asyncio.ensure_future(asyncio.Event().wait())
    fast = erlang_asyncio.create_task(erlang_asyncio.sleep(0.001))
    first = erlang_asyncio.FIRST_COMPLETED
    done, pending = await erlang_asyncio.wait([slow, fast], return_when=first)
    assert (done, pending) == ({fast}, {slow})
    done, pending = await erlang_asyncio.wait([slow], timeout=0.001)
    assert (done, pending) == (set(), {slow})
    slow.cancel()
    await erlang_asyncio.wait([slow])


async def test_shield(loop) -> None:
    release = asyncio.Event()
    inner = erlang_asyncio.ensure_future(release.wait())
    outer = erlang_asyncio.create_task(erlang_asyncio.wait_for(erlang_asyncio.shield(inner), 60))
    await erlang_asyncio.sleep(0)
    outer.cancel()
    with pytest.raises(erlang_asyncio.CancelledError):
        await outer
    release.set()
    assert await inner


# timeout


async def test_timeout_that_is_met(loop) -> None:
    async with erlang_asyncio.timeout(60) as limit:
        await erlang_asyncio.sleep(0.001)
    assert not limit.expired()
    assert repr(limit) == "<Timeout [finished]>"
    with pytest.raises(RuntimeError):
        limit.reschedule(loop.time())


async def test_timeout_that_is_over(loop) -> None:
    cancelled = False
    with pytest.raises(erlang_asyncio.TimeoutError):
        async with erlang_asyncio.timeout(0.001) as limit:
            try:
                await asyncio.Event().wait()
            except erlang_asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    assert limit.expired()
    assert repr(limit) == "<Timeout [expired]>"


@pytest.mark.parametrize("delay", [0, -1])
async def test_timeout_of_nothing(loop, delay: float) -> None:
    with pytest.raises(erlang_asyncio.TimeoutError):
        async with erlang_asyncio.timeout(delay):
            await asyncio.Event().wait()


async def test_no_timeout(loop) -> None:
    async with erlang_asyncio.timeout(None) as limit:
        assert limit.when() is None
        assert repr(limit) == "<Timeout [active] when=None>"
        await erlang_asyncio.sleep(0.001)
    assert not limit.expired()


async def test_a_timeout_can_be_moved(loop) -> None:
    with pytest.raises(erlang_asyncio.TimeoutError):
        async with erlang_asyncio.timeout(3600) as limit:
            limit.reschedule(loop.time() + 0.001)
            await asyncio.Event().wait()
    async with erlang_asyncio.timeout(0.001) as limit:
        limit.reschedule(None)
        await erlang_asyncio.sleep(0.02)
    assert not limit.expired()


async def test_other_exceptions_pass_a_timeout(loop) -> None:
    with pytest.raises(KeyError):
        async with erlang_asyncio.timeout(60):
            raise KeyError("x")


async def test_being_cancelled_is_not_a_timeout(loop) -> None:
    async def wait() -> None:
        async with erlang_asyncio.timeout(60):
            await asyncio.Event().wait()

    waiting = erlang_asyncio.create_task(wait())
    await erlang_asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(erlang_asyncio.CancelledError):
        await waiting


async def test_timeouts_inside_each_other(loop) -> None:
    with pytest.raises(erlang_asyncio.TimeoutError):
        async with erlang_asyncio.timeout(0.001) as outer:
            async with erlang_asyncio.timeout(60) as inner:
                await asyncio.Event().wait()
    assert outer.expired()
    assert not inner.expired()
    async with erlang_asyncio.timeout(60) as outer:
        with pytest.raises(erlang_asyncio.TimeoutError):
            async with erlang_asyncio.timeout(0.001):
                await asyncio.Event().wait()
        await erlang_asyncio.sleep(0.001)
    assert not outer.expired()


def test_timeout_outside_a_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        erlang_asyncio.timeout(1)
