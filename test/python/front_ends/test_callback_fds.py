"""Are callbacks called for the events of their fds? Do errors concern only the fd's owner?"""

from __future__ import annotations

import contextvars
import errno
import io
import socket

import pytest
from erlang_loop.callbacks import CallbackLoop
from fronts import listener, pair, run, turn

pytestmark = pytest.mark.ours


def test_level_triggered(callbacks):
    """Called as long as there is something to read."""
    read: list[bytes] = []

    def readable(sock: socket.socket) -> None:
        read.append(sock.recv(1))
        if len(read) == 3:
            callbacks.stop()

    with pair() as (near, far):
        far.send(b"abc")
        callbacks.add_reader(near, readable)
        run(callbacks)
        assert read == [b"a", b"b", b"c"]


def test_edge_triggered(callbacks):
    """Called once when data arrives, though not all of it is read; again when more arrives."""
    told: list[bytes] = []
    with pair() as (near, far):
        callbacks.add_reader(near, lambda sock: told.append(sock.recv(1)), edge=True)
        far.send(b"abc")
        turns(callbacks)
        assert told == [b"a"]
        far.send(b"d")
        turns(callbacks)
        assert told == [b"a", b"b"]


def test_one_shot(callbacks):
    """Called once, until it is added again; then at once if it is ready."""
    told: list[bytes] = []
    with pair() as (near, far):
        far.send(b"abc")

        def readable(sock: socket.socket) -> None:
            told.append(sock.recv(1))

        callbacks.add_reader(near, readable, oneshot=True)
        turns(callbacks)
        assert told == [b"a"]
        callbacks.add_reader(near, readable, oneshot=True)
        turns(callbacks)
        assert told == [b"a", b"b"]


def test_reader_and_writer_of_one_socket(callbacks):
    """Two callbacks, unlike in a table by fd alone; a one-shot writer does not end the reader."""
    events: list[str] = []
    with pair() as (near, far):
        callbacks.add_reader(near, lambda sock: events.append(f"read {sock.recv(9)!r}"))
        callbacks.add_writer(near, lambda _sock: events.append("write"), oneshot=True)
        turns(callbacks)
        assert events == ["write"]
        far.send(b"x")
        turns(callbacks)
        assert events == ["write", "read b'x'"]
        callbacks.remove_fd(near)
        far.send(b"y")
        turns(callbacks)
        assert len(events) == 2


def turns(loop: CallbackLoop) -> None:
    """Enough of them for whatever is ready, each with a look at the fds."""
    for _ in range(5):
        turn(loop)


def test_remove_fd_of_what_is_closed_or_was_never_watched(callbacks):
    with pair() as (near, far):
        callbacks.remove_fd(far)
        assert not callbacks.remove_reader(far)
        callbacks.add_reader(near, print)
        near.close()
        callbacks.remove_fd(near)
        assert callbacks.asyncio_loop._watched_fds() == []
        with pytest.raises(ValueError, match="Invalid file descriptor"):
            callbacks.add_reader(near, print)


def test_a_number_reused_by_another_socket(callbacks):
    """The old callback is not called for it."""
    called: list[str] = []
    with pair() as (near, _far):
        callbacks.add_reader(near, lambda _sock: called.append("old"))
        number = near.fileno()
    with pair() as (near, far):
        assert number in (near.fileno(), far.fileno())
        callbacks.add_reader(near, lambda _sock: called.append("new"), oneshot=True)
        callbacks.add_reader(far, lambda _sock: called.append("new"), oneshot=True)
        far.send(b"x")
        turns(callbacks)
    assert called == ["new"]


def test_context_of_an_fd(callbacks):
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []
    with pair() as (near, far):
        far.send(b"x")
        contextvars.copy_context().run(
            lambda: (
                variable.set("mine"),
                callbacks.add_reader(near, lambda _sock: seen.append(variable.get())),
            )
        )
        turn(callbacks)
    assert seen[0] == "mine"


# ---- errors have an owner ----


def test_a_connection_whose_callback_raises_is_closed(callbacks, unhandled):
    """And only that one."""
    answers: list[bytes] = []

    def good(sock: socket.socket) -> None:
        answers.append(sock.recv(9))
        callbacks.stop()

    def bad(sock: socket.socket) -> None:
        raise ValueError("a bad client")

    with pair() as (near, far), pair() as (other, other_far):
        callbacks.add_reader(near, bad)
        far.send(b"x")
        turn(callbacks)
        assert near.fileno() == -1
        # The other end notices: reset, because something was left unread.
        with pytest.raises(ConnectionResetError):
            far.recv(9)
        callbacks.add_reader(other, good)
        other_far.send(b"y")
        run(callbacks)
    assert answers == [b"y"]
    assert str(unhandled.pop()["exception"]) == "a bad client"


def test_on_error_decides_instead(callbacks, unhandled):
    heard: list[tuple[socket.socket, str]] = []

    def bad(sock: socket.socket) -> None:
        sock.recv(1)
        raise ValueError("bad")

    with pair() as (near, far):
        callbacks.add_reader(
            near, bad, on_error=lambda sock, error: heard.append((sock, str(error)))
        )
        far.send(b"x")
        turn(callbacks)
        assert heard == [(near, "bad")]
        assert near.fileno() >= 0
        far.send(b"x")
        turns(callbacks)
        assert len(heard) == 2
    assert len(unhandled) == 2
    unhandled.clear()


def test_a_listening_socket_goes_on(callbacks, unhandled):
    """After a client that cannot be accepted the next one is served."""
    tries: list[int] = []

    def accept(sock: socket.socket) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionAbortedError
        sock.accept()[0].close()
        callbacks.stop()

    with listener() as (sock, address), socket.socket() as client:
        callbacks.add_reader(sock, accept)
        client.connect(address)
        run(callbacks)
        callbacks.remove_fd(sock)
    assert isinstance(unhandled.pop()["exception"], ConnectionAbortedError)


def test_a_listening_socket_pauses_when_fds_have_run_out(callbacks, unhandled, monkeypatch):
    tries: list[float] = []

    def accept(sock: socket.socket) -> None:
        tries.append(callbacks.time())
        if len(tries) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        callbacks.stop()

    with listener() as (sock, address), socket.socket() as client:
        callbacks.add_reader(sock, accept)
        client.connect(address)
        run(callbacks)
        callbacks.remove_fd(sock)
    assert tries[1] - tries[0] >= 1
    assert len(unhandled) == 1
    unhandled.clear()


# ---- files ----


def test_a_file_is_always_ready(callbacks, tmp_path):
    """The kernel watches no files; asyncio's loops refuse them."""
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthree\n")
    lines: list[str] = []
    with path.open() as file:

        def readable(file: io.TextIOWrapper) -> None:
            line = file.readline()
            if line:
                lines.append(line)
            else:
                callbacks.remove_fd(file)
                callbacks.stop()

        callbacks.add_reader(file, readable)
        run(callbacks)
        with pytest.raises(PermissionError):
            callbacks.asyncio_loop.add_reader(file, print)
    assert lines == ["one\n", "two\n", "three\n"]


def test_other_callbacks_run_beside_a_file(callbacks, tmp_path):
    with (tmp_path / "file").open("w") as file, pair() as (near, far):
        written: list[int] = []
        callbacks.add_writer(file, lambda _file: written.append(1))
        callbacks.add_writer(near, lambda sock: sock.send(b"x"), oneshot=True)
        callbacks.add_reader(far, lambda _sock: callbacks.stop())
        run(callbacks)
        assert written
        callbacks.remove_fd(file)


def test_a_file_that_fails_is_no_longer_watched(callbacks, tmp_path, unhandled):
    with (tmp_path / "file").open("w") as file:
        callbacks.add_writer(file, lambda _file: 1 / 0)
        turns(callbacks)
        assert not callbacks.remove_writer(file)
    assert isinstance(unhandled.pop()["exception"], ZeroDivisionError)
    assert unhandled == []
