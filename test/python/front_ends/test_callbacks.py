"""Does a program of callbacks work: timers, priorities, threads, processes, errors, ends?"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from erlang_loop.callbacks import HIGH, LOW, CallbackLoop
from fronts import pair, run, turn

pytestmark = pytest.mark.ours

# ---- callbacks and time ----


def test_order_and_arguments(callbacks):
    order: list[object] = []
    callbacks.call_soon(order.append, 1)
    callbacks.call_later(0, order.append, 2)
    callbacks.set_timeout(0.01, order.append, 3)
    callbacks.call_soon_threadsafe(order.append, 4)
    callbacks.call_later(0.02, callbacks.stop)
    run(callbacks)
    assert order == [1, 4, 2, 3]


def test_cancel(callbacks):
    ran: list[int] = []
    scheduled = [
        callbacks.call_soon(ran.append, 1),
        callbacks.call_later(0, ran.append, 2),
        callbacks.call_soon(ran.append, 3, priority=HIGH),
        callbacks.call_soon(ran.append, 4, priority=LOW),
        callbacks.queue_microtask(ran.append, 5),
        callbacks.set_interval(0.001, ran.append, 6),
    ]
    for one in scheduled:
        callbacks.cancel(one)
        callbacks.cancel(one)
    callbacks.call_later(0.01, callbacks.stop)
    run(callbacks)
    assert ran == []


def test_an_interval_goes_on_until_cancelled(callbacks):
    times: list[float] = []

    def tick() -> None:
        times.append(callbacks.time())
        if len(times) == 3:
            interval.cancel()
            callbacks.call_later(0.03, callbacks.stop)

    begun = callbacks.time()
    interval = callbacks.set_interval(0.01, tick)
    run(callbacks)
    assert len(times) == 3
    assert interval.cancelled()
    for number, moment in enumerate(times, 1):
        assert moment - begun >= number * 0.01


def test_ticks_that_were_missed_do_not_pile_up(callbacks):
    """A callback that takes four periods is called once for what it missed."""
    times: list[float] = []

    def tick() -> None:
        times.append(callbacks.time() - interval._begun)
        if len(times) == 1:
            time.sleep(0.04)
        if len(times) == 3:
            callbacks.stop()

    interval = callbacks.set_interval(0.01, tick)
    run(callbacks)
    interval.cancel()
    assert times[1] >= 0.05
    # The third waits for the next full period; the missed ones would come at once.
    assert times[2] >= 0.06


def test_an_interval_survives_an_exception(callbacks, unhandled):
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            callbacks.stop()
        raise ValueError

    interval = callbacks.set_interval(0.001, tick)
    run(callbacks)
    interval.cancel()
    assert [str(each["message"])[:21] for each in unhandled] == ["Exception in callback"] * 3
    unhandled.clear()


@pytest.mark.parametrize("period", [0, -1, float("nan"), float("inf")])
def test_an_invalid_period_is_refused(callbacks, period):
    with pytest.raises(ValueError):
        callbacks.set_interval(period, print)


# ---- priorities ----


def test_priorities(callbacks):
    order: list[str] = []
    callbacks.call_soon(order.append, "low", priority=LOW)
    callbacks.call_soon(order.append, "normal")
    callbacks.call_soon(order.append, "high", priority=HIGH)
    callbacks.call_later(0.01, callbacks.stop)
    run(callbacks)
    assert order == ["high", "normal", "low"]


def test_high_comes_before_normal_ones_that_wait_longer(callbacks):
    order: list[object] = []
    callbacks.call_soon(callbacks.call_soon, order.append, "x")
    callbacks.call_soon(lambda: callbacks.call_soon(order.append, "high", priority=HIGH))
    for number in range(3):
        callbacks.call_soon(order.append, number)
    callbacks.call_later(0.01, callbacks.stop)
    run(callbacks)
    assert order == ["high", 0, 1, 2, "x"]


@pytest.mark.parametrize("others", [[0], [HIGH], [HIGH, 0]])
def test_the_lowest_is_never_starved(callbacks, others):
    """Whatever keeps itself ready, a LOW callback runs after 64 others, and again after 64."""
    ran = 0
    low: list[int] = []

    def busy(priority: int) -> None:
        nonlocal ran
        ran += 1
        callbacks.call_soon(busy, priority, priority=priority)

    def lowest() -> None:
        low.append(ran)
        if len(low) == 20:
            callbacks.stop()
        callbacks.call_soon(lowest, priority=LOW)

    for priority in others:
        callbacks.call_soon(busy, priority, priority=priority)
    callbacks.call_soon(lowest, priority=LOW)
    run(callbacks)
    waits = [later - earlier for earlier, later in itertools.pairwise(low)]
    assert max(waits) <= 65


def test_normal_ones_and_fds_are_not_starved_by_high_ones(callbacks):
    def busy() -> None:
        callbacks.call_soon(busy, priority=HIGH)

    with pair() as (near, far):
        callbacks.call_soon(busy, priority=HIGH)
        callbacks.call_soon(far.send, b"x")
        callbacks.add_reader(near, lambda _sock: callbacks.stop())
        run(callbacks)


def test_low_ones_leave_time_for_fds(callbacks):
    def busy() -> None:
        callbacks.call_soon(busy, priority=LOW)

    with pair() as (near, far):
        for _ in range(100):
            callbacks.call_soon(busy, priority=LOW)
        far.send(b"x")
        callbacks.add_reader(near, lambda _sock: callbacks.stop())
        run(callbacks)


@pytest.mark.parametrize("priority", [2, -2, 7])
def test_other_priorities_are_refused(callbacks, priority):
    with pytest.raises(ValueError, match="priority"):
        callbacks.call_soon(print, priority=priority)


# ---- errors ----


def test_a_failing_timer_ends_nothing(callbacks, unhandled):
    with pair() as (near, _far):
        callbacks.add_reader(near, print)
        callbacks.call_soon(near.send, "no bytes")
        callbacks.call_soon(lambda _sock: 1 / 0, near)
        turn(callbacks)
        assert near.fileno() >= 0
        callbacks.remove_fd(near)
    assert [type(each["exception"]) for each in unhandled] == [TypeError, ZeroDivisionError]
    unhandled.clear()


def test_system_exit_ends_the_loop(callbacks):
    callbacks.call_soon(sys.exit, 3)
    with pytest.raises(SystemExit):
        callbacks.run_forever()


# ---- threads, processes, signals ----


def test_run_in_pool(callbacks):
    answers: list[object] = []

    def answered(value: object) -> None:
        answers.extend([value, threading.current_thread() is threading.main_thread()])
        callbacks.stop()

    assert threading.current_thread() is threading.main_thread()
    callbacks.run_in_pool(
        lambda *args: (args, threading.current_thread().name), 1, 2, callback=answered
    )
    run(callbacks)
    (args, thread), in_main = answers
    assert args == (1, 2)
    assert in_main
    assert thread.startswith("erlang_loop-pool")


def test_an_error_in_the_pool(callbacks, unhandled):
    errors: list[BaseException] = []

    def failed(error: BaseException) -> None:
        errors.append(error)
        callbacks.stop()

    callbacks.run_in_pool(int, "x", on_error=failed)
    run(callbacks)
    assert isinstance(errors[0], ValueError)
    callbacks.set_exception_handler(
        lambda _loop, context: (unhandled.append(context), callbacks.stop())
    )
    callbacks.run_in_pool(int, "x")
    run(callbacks)
    assert "run in the pool" in unhandled.pop()["message"]


def test_cancelling_in_the_pool(nothing_left):
    """Calls that have not begun never run; results of running ones are dropped."""
    with CallbackLoop(pool_size=1) as loop:
        begun, go_on = threading.Event(), threading.Event()
        ran: list[str] = []

        def first() -> None:
            begun.set()
            go_on.wait()
            ran.append("first")

        one = loop.run_in_pool(first, callback=lambda _: ran.append("answered"))
        two = loop.run_in_pool(ran.append, "second")
        begun.wait()
        assert not one.cancel()
        assert two.cancel()
        go_on.set()
        loop.run_in_pool(int, callback=lambda _: loop.stop())
        run(loop)
        assert ran == ["first"]


def test_a_child_process(callbacks):
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    ended: list[int] = []
    callbacks.add_child(process, lambda child: (ended.append(child.returncode), callbacks.stop()))
    run(callbacks)
    assert ended == [7]


def test_a_child_that_has_ended_already(callbacks):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    callbacks.add_child(process, lambda child: callbacks.stop())
    run(callbacks)


def test_a_signal(callbacks):
    callbacks.add_signal_handler(signal.SIGUSR1, callbacks.stop)
    callbacks.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    run(callbacks)
    assert callbacks.remove_signal_handler(signal.SIGUSR1)
    assert not callbacks.remove_signal_handler(signal.SIGUSR1)


# ---- the end ----


def test_shutdown(nothing_left, unhandled):
    """Calls handlers, cancels, closes, joins: in this order, and nothing is left."""
    loop = CallbackLoop()
    loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
    order: list[str] = []
    joined = threading.Event()
    near, far = socket.socketpair()
    loop.add_reader(near, lambda _sock: order.append("never"))
    loop.add_writer(near, lambda _sock: order.append("never"))
    loop.set_interval(0.001, order.append, "never")
    loop.call_soon(order.append, "never")
    loop.run_in_pool(joined.wait, callback=lambda _: order.append("never"))

    def finish_later(done) -> None:
        """A server that needs a moment: the loop runs for it, and calls nothing else yet."""
        order.append("begin")
        loop.remove_fd(near)
        loop.call_later(0.01, lambda: (order.append("finished"), joined.set(), done()))

    loop.at_shutdown(order.append, "first")
    loop.at_shutdown_wait(finish_later)
    loop.add_writer(near, lambda _sock: None, oneshot=True)
    left = loop.shutdown()
    assert left == []
    assert [one for one in order if one != "never"] == ["begin", "first", "finished"]
    assert loop.is_closed()
    far.close()
    near.close()
    assert loop.shutdown() == []


def test_an_ending_that_raises_or_takes_too_long(nothing_left, unhandled):
    loop = CallbackLoop()
    loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
    order: list[str] = []
    loop.at_shutdown(order.append, "last")
    loop.at_shutdown(int, "no number")
    loop.at_shutdown_wait(lambda _done: order.append("never done"), lambda: order.append("abort"))
    loop.at_shutdown_wait(lambda done: (order.append("at once"), done(), done()))
    loop.stop()  # Not what ends the wait.
    loop.shutdown(patience=0.01)
    assert order == ["at once", "never done", "last", "abort"]
    assert isinstance(unhandled.pop()["exception"], ValueError)


def test_shutdown_names_what_does_not_end(nothing_left):
    loop = CallbackLoop()
    go_on = threading.Event()
    call = loop.run_in_pool(go_on.wait)
    assert loop.shutdown(patience=0.01) == [call]
    go_on.set()
    call._future.result()


def test_shutdown_while_it_runs(callbacks):
    errors: list[BaseException] = []

    def end() -> None:
        try:
            callbacks.shutdown()
        except RuntimeError as error:
            errors.append(error)
        callbacks.stop()

    callbacks.call_soon(end)
    run(callbacks)
    assert "stop() it first" in str(errors[0])


def test_shutdown_ends_coroutines_beside(nothing_left):
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    with CallbackLoop() as loop:
        task = loop.asyncio_loop.create_task(forever())
        turn(loop)
    assert ended == ["cancelled"]
    assert task.cancelled()


def test_a_closed_loop_refuses(nothing_left):
    loop = CallbackLoop()
    loop.close()
    loop.close()
    for use in (
        lambda: loop.call_soon(print),
        lambda: loop.call_soon(print, priority=LOW),
        lambda: loop.call_later(1, print),
        lambda: loop.set_interval(1, print),
        lambda: loop.add_reader(0, print),
        lambda: loop.run_in_pool(print),
        loop.run_forever,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()


# ---- handlers that take long ----


def slow() -> None:
    time.sleep(0.06)


def test_a_handler_that_blocks_is_named(callbacks, caplog):
    callbacks.set_blocking_threshold(0.05)
    callbacks.call_soon(slow)
    callbacks.call_soon(int)
    turn(callbacks)
    line = slow.__code__.co_firstlineno
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"by slow() at {__file__}:{line}" in record.getMessage()
    callbacks.set_blocking_threshold(None)
    callbacks.call_soon(slow)
    turn(callbacks)
    assert len(caplog.records) == 1
    with pytest.raises(ValueError):
        callbacks.set_blocking_threshold(-1)
