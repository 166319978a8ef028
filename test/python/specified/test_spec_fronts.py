"""The example programs for callback, generator and microtask loops run as they are written.

They are files in `spec_examples`, to the letter but for their imports and the port number. The one
for stdin has the functions of its example, on our loop instead of an epoll object of its own.
"""

from __future__ import annotations

import os
import pty
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
from command import ERLANG_LOOP, PATIENCE, environment, run, running

EXAMPLES = Path(__file__).parent / "spec_examples"
SERVERS = ["callback_server.py", "generator_server.py"]

pytestmark = pytest.mark.ours


def example(name: str, port: int) -> str:
    return (EXAMPLES / name).read_text().replace("9000", str(port))


@pytest.fixture
def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def connect(port: int) -> socket.socket:
    """Waits for a server that is just starting."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise


@pytest.mark.parametrize("name", SERVERS)
def test_echo_server(name, port):
    with running(ERLANG_LOOP, "-c", example(name, port)):
        with connect(port) as one, connect(port) as other:
            one.sendall(b"one")
            other.sendall(b"other")
            assert other.recv(100) == b"other"
            assert one.recv(100) == b"one"
            one.shutdown(socket.SHUT_WR)
            assert one.recv(100) == b""
            other.sendall(b"still here")
            assert other.recv(100) == b"still here"


@pytest.mark.parametrize("name", SERVERS)
def test_a_client_that_resets_ends_only_itself(name, port):
    """The examples do not catch that; the loop reports it and goes on."""
    with running(ERLANG_LOOP, "-c", example(name, port)) as server:
        with connect(port) as good:
            with connect(port) as bad:
                bad.sendall(b"x")
                assert bad.recv(1) == b"x"
                # Closed with a reset instead of an end of file.
                bad.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            good.sendall(b"good")
            assert good.recv(100) == b"good"
        server.process.kill()
        _, errors = server.process.communicate(timeout=PATIENCE)
    assert "ConnectionResetError" in errors


def test_echo_client(port):
    """The example's own client talks to its server."""
    with running(ERLANG_LOOP, "-c", example("callback_server.py", port)):
        connect(port).close()
        ended = run(ERLANG_LOOP, "-c", example("callback_client.py", port), stdin="one\ntwo\n")
    assert ended.out == ">> one\n>> two\n>> "
    assert "EOFError" in ended.err


EXPECTED = [
    "[JS] console.log('one')",
    "[JS] Promise.then()",
    "[JS] console.log('two')",
    "[JS] Promise.then()",
]


def test_stdin_from_a_pipe():
    """Both lines come in one piece: the second must not wait for a third."""
    with running(ERLANG_LOOP, "-u", str(EXAMPLES / "stdin_microtasks.py")) as program:
        stdin = program.process.stdin
        assert stdin is not None
        stdin.write("one\ntwo\n")
        stdin.flush()
        for line in EXPECTED:
            program.wait_line(line)
        stdin.write("\n")  # An empty line: the example ends.
        stdin.flush()
        assert program.process.wait(PATIENCE) == 0


def test_stdin_from_a_file(tmp_path):
    (tmp_path / "input").write_text("one\ntwo\n")
    with (tmp_path / "input").open() as file:
        ended = run_with(stdin=file)
    assert ended == EXPECTED


def run_with(stdin: object) -> list[str]:
    done = subprocess.run(
        [ERLANG_LOOP, str(EXAMPLES / "stdin_microtasks.py")],
        stdin=stdin,
        stdout=subprocess.PIPE,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout.decode().splitlines()


def test_stdin_from_a_terminal():
    near, far = pty.openpty()
    with subprocess.Popen(
        [ERLANG_LOOP, "-u", str(EXAMPLES / "stdin_microtasks.py")],
        stdin=far,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        os.close(far)
        try:
            assert process.stdout is not None
            for number, text in enumerate([b"one\n", b"two\n"]):
                os.write(near, text)
                expected = EXPECTED[2 * number : 2 * number + 2]
                assert [process.stdout.readline().rstrip("\n") for _ in range(2)] == expected
            os.write(near, b"\n")  # An empty line: the example ends.
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            os.close(near)
