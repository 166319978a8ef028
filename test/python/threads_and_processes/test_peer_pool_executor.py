"""Does a pool of peers work as an executor, and does a crash cost one future only?"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import erlang
import erlang_loop
import pytest

sys.path.append(str(Path(__file__).parents[2] / "support" / "python"))
import peer_works


@pytest.fixture(scope="module")
def pool() -> Iterator[erlang_loop.PeerPoolExecutor]:
    # The stacks of the crashes would be in the output.
    with erlang_loop.PeerPoolExecutor({"size": 2, "settings": {"faulthandler": False}}) as pool:
        yield pool


def eventually(condition: Callable[[], bool]) -> None:
    """Waits for what has no event of its own."""
    while not condition():
        time.sleep(0.001)


def running() -> set[str]:
    """The pools of executors."""
    return {
        name
        for name in erlang.call("erlang", "registered")
        if "_works" in name or "py_peer_executor" in name
    }


def test_values_cross_as_they_are(pool):
    values = (Fraction(1, 3), {1: {2}}, b"\xff" * 100_000, Path("x"), None)
    assert pool.submit(peer_works.echo, *values, key=Fraction).result() == (
        values,
        {"key": Fraction},
    )
    assert pool.submit(Fraction(1, 4).__add__, 1).result() == Fraction(5, 4)
    assert pool.submit(os.getpid).result() != os.getpid()


def test_map(pool):
    assert list(pool.map(peer_works.square, range(50))) == [n * n for n in range(50)]
    assert list(pool.map(pow, range(50), range(49), chunksize=7)) == [n**n for n in range(49)]
    with pytest.raises(ValueError, match="chunksize"):
        pool.map(peer_works.square, [], chunksize=0)


def test_peers_run_at_the_same_time(pool, tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    first = pool.submit(peer_works.meet, one, two)
    second = pool.submit(peer_works.meet, two, one)
    assert first.result() != second.result()


async def test_run_in_executor(loop, pool):
    works = (loop.run_in_executor(pool, peer_works.square, n) for n in range(100))
    assert await asyncio.gather(*works) == [n * n for n in range(100)]


def test_exceptions_are_themselves(pool):
    with pytest.raises(KeyError, match="missing") as raised:
        pool.submit(peer_works.fail, "missing").result()
    assert "in fail" in str(raised.value.__cause__)
    with pytest.raises(RuntimeError, match="WantingError: wanting"):
        pool.submit(peer_works.fail_badly).result()
    with pytest.raises(SystemExit):
        pool.submit(sys.exit, 3).result()
    with pytest.raises(Exception, match="lambda"):
        pool.submit(peer_works.unpicklable).result()


def test_functions_without_a_global_name_are_refused(pool):
    def local() -> None:
        """Has no global name."""

    for function in (lambda: None, local):
        with pytest.raises(TypeError, match="on the top level of a module"):
            pool.submit(function)
    of_main = type(local)(local.__code__, {"__name__": "__main__"}, "of_main")
    of_main.__qualname__ = "of_main"
    with pytest.raises(TypeError, match=r"__main__\.of_main has no name in a peer"):
        pool.submit(of_main)


def test_a_crash_costs_one_future(pool, tmp_path):
    gate = tmp_path / "gate"
    waiting = pool.submit(peer_works.wait_for, str(gate))
    crashing = pool.submit(peer_works.crash)
    after = [pool.submit(peer_works.square, n) for n in range(20)]
    with pytest.raises(concurrent.futures.BrokenExecutor, match="signal SIGSEGV"):
        crashing.result()
    gate.touch()
    assert waiting.result() > 0
    assert [future.result() for future in after] == [n * n for n in range(20)]
    with pytest.raises(erlang_loop.PeerDown, match="exit code 3"):
        pool.submit(peer_works.leave, 3).result()
    assert list(pool.map(peer_works.square, range(4))) == [0, 1, 4, 9]


def test_peers_that_retire_lose_no_work():
    limits = {"requests": 9}
    with erlang_loop.PeerPoolExecutor({"size": 1, "spare": 1, "limits": limits}) as pool:
        pids = set(pool.map(peer_works.pid, range(25)))
    assert len(pids) == 3


def test_by_name_and_the_ends(tmp_path):
    gate = tmp_path / "gate"
    owner = erlang_loop.PeerPoolExecutor({"name": "named_works", "size": 1})
    guest = erlang_loop.PeerPoolExecutor("named_works")
    with guest:
        assert guest.submit(peer_works.square, 3).result() == 9
    # The guest has not ended the pool.
    begun = owner.submit(peer_works.wait_for, str(gate))
    cancelled = owner.submit(peer_works.square, 3)
    eventually(begun.running)
    owner.shutdown(wait=False, cancel_futures=True)
    assert cancelled.cancelled()
    with pytest.raises(RuntimeError, match="after shutdown"):
        owner.submit(peer_works.square, 3)
    gate.touch()
    assert begun.result() > 0
    owner.shutdown()
    eventually(lambda: "named_works" not in running())


def test_a_pool_that_has_ended():
    owner = erlang_loop.PeerPoolExecutor({"name": "ended_works", "size": 1})
    erlang.call("py_event_loop_pool", "stop", [erlang.Atom("ended_works")])
    with pytest.raises(erlang_loop.PeerDown, match="the pool ended_works has ended"):
        owner.submit(peer_works.square, 3).result()
    owner.shutdown()


def test_one_that_is_dropped_ends_its_pool():
    before = running()
    pool = erlang_loop.PeerPoolExecutor({"size": 1})
    assert pool.submit(peer_works.square, 3).result() == 9
    assert running() > before
    del pool
    gc.collect()
    eventually(lambda: running() == before)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("no_such_pool", "no_pool"),
        ({"size": 0}, "positive"),
        ({"no_such_option_of_a_peer": 1}, "no such option"),
        ({"limits": {"files": 1}}, "at least 64"),
        ({"limits": {"lifetime": 0}}, "seconds"),
        ({"limits": {"requests": 0}}, "positive"),
        ({"place": "peer"}, "this machine only"),
        ({"size": 1, "init": "import no_such_module"}, "no_such_module"),
    ],
)
def test_bad_options(options, why):
    before = running()
    with pytest.raises(erlang.Error, match=why):
        erlang_loop.PeerPoolExecutor(options)
    eventually(lambda: running() == before)
