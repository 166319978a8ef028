"""Do tasks that are generators suspend, go on, and end only themselves?"""

from __future__ import annotations

import contextvars
import errno
import logging
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest
from erlang_loop.generators import (
    GeneratorLoop,
    TaskCancelledError,
    await_read,
    await_write,
    in_pool,
    join,
    sleep,
)
from fronts import listener, pair, run, turn

pytestmark = pytest.mark.ours


def echo(conn: socket.socket):
    with conn:
        while True:
            yield from await_read(conn)
            data = conn.recv(4096)
            if not data:
                return
            yield from await_write(conn)
            conn.sendall(data)


def serve(loop: GeneratorLoop, sock: socket.socket):
    while True:
        yield from await_read(sock)
        conn, _ = sock.accept()
        conn.setblocking(False)
        loop.create_task(echo(conn))


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


def test_waiting_for_reading_and_writing(generators):
    with pair() as (near, far):
        read: list[bytes] = []

        def reader():
            for _ in range(3):
                yield from await_read(near)
                read.append(near.recv(1))

        def writer():
            for byte in (b"a", b"b", b"c"):
                yield from await_write(far)
                far.send(byte)
                yield from sleep(0.001)

        generators.create_task(writer())
        generators.run_until_complete(reader())
    assert read == [b"a", b"b", b"c"]


def test_the_plain_tuples_work(generators):
    """What the helpers yield, a task may yield itself."""
    with pair() as (near, far):

        def task():
            yield ("sleep", 0.001)
            yield ("write", far)
            far.send(b"x")
            yield ("read", near)
            return near.recv(9)

        assert generators.run_until_complete(task()) == b"x"


def test_sleep_is_never_short(generators):
    def task():
        begun = time.monotonic()
        yield from sleep(0.02)
        return time.monotonic() - begun

    assert generators.run_until_complete(task()) >= 0.02


def test_join_answers_and_raises(generators):
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


def test_a_time_out(generators):
    """And a wait that was in time is not ended by its limit later."""
    with pair() as (near, far):

        def task():
            far.send(b"x")
            yield from await_read(near, timeout=0.02)
            near.recv(1)
            begun = time.monotonic()
            with pytest.raises(TimeoutError):
                yield from await_read(near, timeout=0.05)
            return time.monotonic() - begun

        assert generators.run_until_complete(task()) >= 0.05


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


# ---- errors and closed sockets end only their own task ----


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


def test_a_reset_ends_only_its_task(generators, unhandled):
    with listener() as (sock, address):
        server = generators.create_task(serve(generators, sock))

        def clients():
            with socket.create_connection(address) as good:
                bad = socket.create_connection(address)
                bad.setblocking(False)
                good.setblocking(False)
                bad.send(b"x")
                yield from await_read(bad)
                bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                bad.close()
                good.send(b"good")
                yield from await_read(good)
                return good.recv(100)

        assert generators.run_until_complete(clients()) == b"good"
        server.cancel()
        turn(generators)
        turn(generators)
    assert isinstance(unhandled.pop()["exception"], ConnectionResetError)


def test_waiting_for_a_closed_socket(generators, unhandled):
    with pair() as (near, _far):
        near.close()
        task = generators.create_task(echo(near))
        turn(generators)
        turn(generators)
    assert task.done()
    assert isinstance(unhandled.pop()["exception"], (OSError, ValueError))


def test_a_socket_closed_while_a_task_waits(generators):
    with pair() as (near, _far):

        def reader():
            with pytest.raises(OSError) as caught:
                yield from await_read(near)
            return caught.value.errno

        def closer():
            task = generators.create_task(reader())
            yield from sleep(0.001)
            generators.close_socket(near)
            return (yield from join(task))

        assert generators.run_until_complete(closer()) == errno.EBADF


def test_a_number_taken_over_by_another_socket(generators):
    """Closed behind the loop's back: its task hears of it when the number is used again."""
    with pair() as (near, _far):
        number = near.fileno()
        seen: list[int | None] = []

        def first():
            try:
                yield from await_read(near)
            except OSError as error:
                seen.append(error.errno)

        def second():
            task = generators.create_task(first())
            yield from sleep(0)
            near.close()
            with pair() as (one, other):
                mine = one if one.fileno() == number else other
                (other if mine is one else one).send(b"x")
                yield from await_read(mine)
                yield from join(task)
                return mine.recv(9)

        assert generators.run_until_complete(second()) == b"x"
        assert seen == [errno.EBADF]


def test_data_that_comes_while_the_task_does_something_else(generators):
    """It is neither lost nor does it keep the loop awake meanwhile."""
    with pair() as (near, far):

        def reader():
            yield from await_read(near)
            near.recv(1)
            far.send(b"early")
            begun = time.thread_time()
            yield from sleep(0.2)
            spent = time.thread_time() - begun
            yield from await_read(near)
            first = near.recv(3)
            yield from await_read(near)  # The rest is still there.
            first += near.recv(3)
            far.send(b"late")
            yield from await_write(near)
            yield from await_read(near)
            return spent, first + near.recv(9)

        far.send(b"x")
        spent, read = generators.run_until_complete(reader())
        assert read == b"earlylate"
        assert spent < 0.1


def test_a_watch_that_was_taken_away(generators):
    """By a callback for the same socket: the task hears of the next event all the same."""
    with pair() as (near, far):

        def reader():
            far.send(b"x")
            yield from await_read(near)
            near.recv(1)
            generators.add_reader(near, print)
            far.send(b"y")
            yield from await_read(near)
            return near.recv(9)

        assert generators.run_until_complete(reader()) == b"y"


def test_two_tasks_for_one_socket(generators):
    """The second hears of it; the first goes on waiting."""
    with pair() as (near, far):

        def first():
            yield from await_read(near)
            return near.recv(9)

        def second():
            task = generators.create_task(first())
            yield from sleep(0)
            with pytest.raises(RuntimeError, match="waits already"):
                yield from await_read(near)
            far.send(b"x")
            return (yield from join(task))

        assert generators.run_until_complete(second()) == b"x"


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


# ---- many ----

CLIENTS = """
import resource, socket, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
port, count = int(sys.argv[1]), int(sys.argv[2])
clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
print("connected", flush=True)
for turn in range(2):
    for number, client in enumerate(clients):
        client.sendall(b"%d" % number)
    for number, client in enumerate(clients):
        assert client.recv(100) == b"%d" % number
print("echoed", flush=True)
sys.stdin.read()
"""


def test_ten_thousand_clients_at_once(generators, unhandled, capsys):
    """All connected at the same time, each in a task of its own. The clients are another process:
    each end of a connection is an fd."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, most - 500)
    if count < 10_000:
        with capsys.disabled():
            print(f"only {count} clients: the system allows {most} fds")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    command = [sys.executable, "-c", CLIENTS]
    try:
        with listener() as (sock, (_, port)):
            server = generators.create_task(serve(generators, sock))
            with subprocess.Popen(
                [*command, str(port), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as clients:
                lines: list[bytes] = []
                connected: list[int] = []

                def said(file) -> None:
                    lines.append(file.readline())
                    if lines[-1] == b"echoed\n":
                        connected.append(len(generators.all_tasks()) - 1)
                        clients.stdin.close()
                        generators.remove_fd(file)
                        generators.set_interval(0.01, stop_when_alone)
                    elif not lines[-1]:
                        generators.stop()

                def stop_when_alone() -> None:
                    if generators.all_tasks() == {server}:
                        generators.stop()

                generators.add_reader(clients.stdout, said)
                run(generators)
                assert lines == [b"connected\n", b"echoed\n"]
                assert connected == [count]
            server.cancel()
            turn(generators)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))
