"""Do generators that wait for sockets wake for data, and for sockets that were closed?"""

from __future__ import annotations

import errno
import resource
import socket
import subprocess
import sys
import time

import pytest
from erlang_loop.generators import GeneratorLoop, await_read, await_write, join, sleep
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


def test_a_call_times_out(generators):
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


# ---- sockets that are closed, reset or reused ----


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
    """Closed behind the loop's back: its task gets an error when the number is used again."""
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


# ---- which task gets which event ----


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
    """By a callback for the same socket: the task still gets the next event."""
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
    """The second gets an error; the first continues to wait."""
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
