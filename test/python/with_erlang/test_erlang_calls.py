"""`erlang.call` and similar functions: results, errors and ends, from threads and from loops.

Nesting, deaths and other nodes are in py_questions_SUITE.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import threading
import weakref

import erlang
import pytest
from command import ERLANG_LOOP, running
from erlang import Atom


def test_a_thread_asks() -> None:
    assert erlang.call("lists", "reverse", [[1, 2, 3]]) == [3, 2, 1]
    assert erlang.call(Atom("lists"), Atom("reverse"), ([1, 2, 3],)) == [3, 2, 1]
    assert isinstance(erlang.call("erlang", "self"), erlang.Pid)


async def test_a_task_asks(loop: asyncio.AbstractEventLoop) -> None:
    """On both loops: asyncio's own is woken by call_soon_threadsafe."""
    assert await erlang.async_call("lists", "reverse", [[1, 2, 3]]) == [3, 2, 1]
    answers = await asyncio.gather(*[erlang.async_call("erlang", "abs", [-n]) for n in range(500)])
    assert answers == list(range(500))


async def test_other_tasks_run_meanwhile(loop: asyncio.AbstractEventLoop) -> None:
    asked = asyncio.ensure_future(erlang.async_call("timer", "sleep", [50]))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1
    assert await asked == "ok"


async def test_a_call_blocks_the_loop_and_still_gets_its_reply(
    loop: asyncio.AbstractEventLoop,
) -> None:
    assert erlang.call("lists", "reverse", [[1]]) == [1]


def test_a_hundred_threads() -> None:
    answers: list[int] = []

    def ask(number: int) -> None:
        for _ in range(20):
            answers.append(erlang.call("erlang", "abs", [-number]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(list(range(100)) * 20)


def test_other_threads_run_meanwhile() -> None:
    answered = threading.Event()

    def ask() -> None:
        erlang.call("timer", "sleep", [50])
        answered.set()

    thread = threading.Thread(target=ask)
    thread.start()
    turns = 0
    while not answered.is_set():
        turns += 1
    thread.join()
    assert turns > 1000


def test_an_exception() -> None:
    with pytest.raises(erlang.Error) as caught:
        erlang.call("lists", "last", [[]])
    assert caught.value.kind == "error"
    assert caught.value.reason == "function_clause"
    assert caught.value.stacktrace[0][:3] == ("lists", "last", 1)
    assert str(caught.value) == "error: function_clause"


async def test_an_exception_of_a_task(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(erlang.Error, match="throw: ball"):
        await erlang.async_call("erlang", "throw", [Atom("ball")])


def test_a_timeout() -> None:
    with pytest.raises(TimeoutError, match=r"no reply within 0\.02 s"):
        erlang.call("timer", "sleep", [10_000], timeout=0.02)


async def test_a_timeout_of_a_task(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TimeoutError, match=r"no reply within 0\.02 s"):
        await erlang.async_call("timer", "sleep", [10_000], timeout=0.02)
    assert await erlang.async_call("erlang", "abs", [-1], timeout=20) == 1


async def test_cancelling_kills_what_runs(loop: asyncio.AbstractEventLoop) -> None:
    blocked = fun_of("fun(To) -> To ! self(), receive never -> ok end end.")
    task = asyncio.ensure_future(blocked.async_call(erlang.self()))
    process = await erlang.async_receive(timeout=20)
    async with erlang.monitor(process):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await erlang.async_receive(timeout=20))[4] == "killed"


def fun_of(code: str) -> erlang.Fun:
    _, tokens, _ = erlang.call("erl_scan", "string", [[ord(letter) for letter in code]])
    _, parsed = erlang.call("erl_parse", "parse_exprs", [tokens])
    _, fun, _ = erlang.call("erl_eval", "exprs", [parsed, []])
    assert isinstance(fun, erlang.Fun)
    return fun


def test_funs() -> None:
    add = fun_of("fun(A, B) -> A + B end.")
    assert add(1, 2) == 3
    assert repr(add).startswith("Fun<")
    named = erlang.call("erlang", "make_fun", [Atom("lists"), Atom("reverse"), 1])
    assert repr(named) == "Fun<lists:reverse/1>"
    assert named([1, 2]) == [2, 1]
    with pytest.raises(erlang.Error, match="badarith"):
        add(1, Atom("two"))


async def test_funs_in_tasks(loop: asyncio.AbstractEventLoop) -> None:
    assert await fun_of("fun(A, B) -> A + B end.").async_call(1, 2) == 3


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("no_such_module_at_all", "f"), ValueError, 'there is no atom "no_such_module_at_all"'),
        (("lists", "no_such_function_at_all"), ValueError, "function: there is no atom"),
        # Not `lists`, whose name this is in 16 bits of length.
        (("lists" + "x" * 65536, "reverse", [[]]), ValueError, "an atom has at most 255"),
        (("lists", "reverse" + "x" * 65536, [[]]), ValueError, "an atom has at most 255"),
        (
            ("erlang", "is_atom", [str.__new__(Atom, "lists" + "x" * 65536)]),
            erlang.ConversionError,
            r"args\[0\]: an atom has at most 255",
        ),
        (("erlang", "is_tuple", [(0,) * 2**24]), erlang.ConversionError, "at most 16,777,215"),
        ((1, "f"), TypeError, "module must be an erlang.Atom or a str"),
        (("lists", None), TypeError, "function must be an erlang.Atom or a str"),
        (("lists", "reverse", "abc"), TypeError, "args must be a list or a tuple, not str"),
        (("lists", "reverse", 1), TypeError, "args must be a list or a tuple, not int"),
        (("lists", "reverse", [[1, object()]]), erlang.ConversionError, r"args\[0\]\[1\]: cannot"),
        (("lists", "duplicate", [1, b"\xff"]), erlang.ConversionError, r"result\[0\]: a binary"),
    ],
)
def test_bad_arguments(arguments: tuple[object, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        erlang.call(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan])
def test_bad_timeouts(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must not be negative"):
        erlang.call("erlang", "self", timeout=timeout)


@pytest.mark.parametrize("timeout", [-1, math.nan])
async def test_bad_timeouts_of_tasks(loop: asyncio.AbstractEventLoop, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must not be negative"):
        await erlang.async_call("erlang", "self", timeout=timeout)


def test_infinite_timeout() -> None:
    assert erlang.call("erlang", "abs", [-1], timeout=math.inf) == 1


def test_unknown_options() -> None:
    with pytest.raises(TypeError):
        erlang.call("erlang", "self", [], patience=1)  # type: ignore[call-arg]


def test_async_call_without_a_loop() -> None:
    asked = erlang.async_call("erlang", "self")
    with pytest.raises(RuntimeError, match="no running event loop"):
        asked.send(None)


def test_a_loop_that_is_closed_while_erlang_works() -> None:
    """Its reply has no receiver and is dropped."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(erlang.async_call("timer", "sleep", [20]))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()
    assert erlang.call("timer", "sleep", [40]) == "ok"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_copy_has_no_erlang() -> None:
    child = os.fork()
    if child == 0:
        try:
            erlang.call("erlang", "self")
        except RuntimeError as error:
            os._exit(7 if "has no Erlang in it" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_ctrl_c_ends_it() -> None:
    code = "import erlang; print('ready', flush=True); erlang.call('timer', 'sleep', [600_000])"
    with running(ERLANG_LOOP, "-c", code) as program:
        program.wait_line("ready")
        ended = program.end(2)
    assert "KeyboardInterrupt" in ended.err


async def test_nothing_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    """Answered, failed, timed out, cancelled: the collector finds all of it."""

    async def ask(how: str) -> weakref.ref[asyncio.Task[object]]:
        async def body() -> None:
            if how == "answered":
                await erlang.async_call("erlang", "abs", [1])
            elif how == "failed":
                with pytest.raises(erlang.Error):
                    await erlang.async_call("erlang", "error", [Atom("no")])
            else:
                await erlang.async_call("timer", "sleep", [10_000], timeout=0.001)

        task = asyncio.ensure_future(body())
        if how == "cancelled":
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None or how == "timed out"
        return weakref.ref(task)

    asked = [await ask(how) for how in ("answered", "failed", "timed out", "cancelled")]
    gc.collect()
    assert [task() for task in asked] == [None] * 4
