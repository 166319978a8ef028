"""Do the programs in examples/ do what they say?"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest
from command import ERLANG_LOOP, PATIENCE, ROOT, run, running

EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.ours


def output_of(name: str, *args: str, stdin: str = "") -> list[str]:
    ended = run(ERLANG_LOOP, str(EXAMPLES / name), *args, stdin=stdin)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.splitlines()


def test_every_example_is_in_some_test():
    tests = [*(ROOT / "test").rglob("*.py"), *(ROOT / "test").rglob("*.erl")]
    text = "".join(path.read_text(encoding="utf-8") for path in tests)
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".escript")}
    assert {name for name in programs if name not in text} == set()


def escript(name: str) -> list[str]:
    ended = subprocess.run(
        [shutil.which("escript") or "escript", str(EXAMPLES / name)],
        env={**os.environ, "ERL_LIBS": str(ROOT / "_build/default/lib")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "module"),
    [("tour.escript", "tour_echo.py"), ("supervised_echo.escript", "supervised_echo.py")],
)
def test_escripts(name, module):
    """They end with another exit code if something is not as it should be."""
    assert (EXAMPLES / module).exists()  # What they run in Python.
    assert escript(name)


def test_actor():
    assert (EXAMPLES / "actor_account.py").exists()  # The actor.
    assert escript("actor.escript") == [
        "the balance is 100",
        "it crashed: builtins.TypeError: unsupported operand type(s) for +=: 'int' and 'str'",
        "its supervisor has started a new one, with a balance of 0",
    ]


def test_misbehaves():
    """Each of the five mistakes is found, at its line."""
    said = "\n".join(escript("misbehaves.escript"))
    program = (EXAMPLES / "misbehaves.py").read_text(encoding="utf-8").splitlines()
    mistakes = {
        "does not yield: reports": "hashlib.pbkdf2_hmac",
        "coroutine was never awaited: save": "save(7)",
        "exception was never retrieved: KeyError": "[key]",
        "waits for long: takes left": "async with second",
        "stream without demand: misbehaves.rows": None,
    }
    for mistake, code in mistakes.items():
        assert mistake in said
        if code is not None:
            line = next(n for n, text in enumerate(program, 1) if code in text)
            assert f"misbehaves.py:{line}: {mistake}" in said


def test_token_stream():
    assert (EXAMPLES / "token_stream.py").exists()  # The model.
    said = escript("token_stream.escript")
    assert "   Stop; 0 at work, 1 finished, 1 stopped" in said
    assert any("4. 200 answers at the same time: 5200 tokens" in line for line in said)


def test_kept_client():
    assert (EXAMPLES / "kept_client.py").exists()  # The client.
    said = escript("kept_client.escript")
    assert said[0].startswith("1. #py{kept_client.Client} is <client of ")
    assert said[0].endswith(", new>")
    assert said[1].endswith(", open>")
    assert said[2] == "3. 101 questions, 1 connection"


def test_chat_api():
    pytest.importorskip("fastapi")
    assert output_of("chat_api.py") == [
        "1. 26 tokens, then event: end",
        "2. Stop after 5 tokens: event: stopped",
        "3. A reader went away in the middle of its answer",
        "4. 404: there is no such answer",
        "5. The model: 0 at work, 1 finished, 2 stopped",
    ]


def test_pool_api():
    pytest.importorskip("fastapi")
    assert output_of("pool_api.py") == [
        "startup has opened 3 connections",
        "50 notes from 50 requests at the same time",
        "a long note: 422, String should have at most 100 characters",
        "shutdown has closed them",
    ]


def test_chat_rooms():
    pytest.importorskip("fastapi")
    pytest.importorskip("websockets")
    assert output_of("chat_rooms.py") == [
        "1. ann reads: ann is here",
        "2. ann reads: bob is here | bob: hello",
        "3. bob reads: bob: hello",
        "4. ann reads: bob has left",
        "5. ann reads: the time is over",
        "6. the room is empty",
    ]


@pytest.mark.parametrize("app", ["pool_api:app", "chat_rooms:app", "chat_api:app"])
def test_applications_are_served_by_the_command(app):
    pytest.importorskip("fastapi")
    pytest.importorskip("websockets")
    arguments = ["-m", "erlang_loop.asgi", app, "--app-dir", str(EXAMPLES), "--port", "0"]
    with running(ERLANG_LOOP, *arguments) as server:
        assert server.process.stderr is not None
        assert "Serving on http://127.0.0.1:" in server.process.stderr.readline()
        assert server.end(signal.SIGTERM).code == 0


def test_mcp_server():
    assert (EXAMPLES / "mcp_server.py").exists()  # The server.
    assert escript("mcp_server.escript") == [
        "1. The client is connected",
        "2. 40 + 2 is 42",
        "3. A tool crashed: {signal,sigsegv}",
        "4. The supervisor has started it again: 20 + 22 is 42",
    ]


def test_model_workers():
    assert (EXAMPLES / "model_workers.py").exists()  # The model.
    assert escript("model_workers.escript") == [
        "1. 4 predictions by 2 processes",
        "2. One input crashed its worker: {signal,sigsegv}",
        "3. 4 predictions after it, the same as before: true",
    ]


def test_all_cores():
    assert (EXAMPLES / "all_cores.py").exists()  # The computation.
    assert escript("all_cores.escript") == [
        "9592 primes below 100000",
        "counted by one process for each core: true",
    ]


def test_three_nodes():
    assert escript("three_nodes.escript") == [
        "a pool over 3 nodes",
        "30 calls were run by 3 of them",
        "10 calls with one key by 1",
        "one node is gone: 30 calls were run by 2",
    ]


def test_moved_in():
    assert (EXAMPLES / "moved_in.py").exists()  # The program.
    assert escript("moved_in.escript") == [
        "a client has sent 6 words, 'to' among them 2 times",
        "the loop has stopped, with 0 tasks left",
    ]


def test_upload():
    assert (EXAMPLES / "upload.py").exists()  # The parser.
    said = escript("upload.escript")
    assert "the upload needed less than 60 MB" in said
    assert "a broken upload: exit: connection_lost" in said


def test_message_echo():
    assert escript("message_echo.escript") == [
        "the server answered hello",
        "the server answered and again",
        "Python was not started",
    ]


def test_callback_echo():
    assert output_of("callback_echo.py") == [
        "a client ended with ConnectionResetError",
        "one got its reply",
        "two got its reply",
    ]


def test_generator_echo():
    assert output_of("generator_echo.py", "300") == ["300 clients were served"]


def test_microtasks():
    assert output_of("microtasks.py", stdin="one\n") == [
        "a callback has 'one'",
        "  first microtask",
        "  second microtask",
        "  a microtask of a microtask",
        "  then the next callback",
    ]


def test_benchmark_event_loop():
    """Each figure is printed for both loops; how high they are depends on the machine."""
    head, *figures = output_of("benchmark_event_loop.py", "1")
    assert head.split() == ["ErlangEventLoop", "asyncio"]
    printed = [re.fullmatch(r"(.+): +([\d.,]+) (.+) +([\d.,]+) (.+)", line) for line in figures]
    assert [(line[1], line[3].strip(), line[5]) for line in printed] == [
        ("Timer throughput", "timers/sec", "timers/sec"),
        ("Callback dispatch", "callbacks/sec", "callbacks/sec"),
        ("I/O ready detection", "ms latency", "ms latency"),
    ]
    assert all(float(line[group].replace(",", "")) > 0 for line in printed for group in (2, 4))


def test_files():
    assert output_of("files.py") == [
        "the sum is 6",
        "there are 1 files",
        "that failed: FileNotFoundError",
    ]


def test_http_server_asks_itself():
    assert output_of("http_server.py") == [
        r"b'GET, and 0 bytes\n'",
        r"b'4999950000\n'",
        r"b'3\n2\n1\n'",
    ]


def test_http_server_on_a_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with running(ERLANG_LOOP, str(EXAMPLES / "http_server.py"), str(port)) as program:
        program.wait_line(f"listening on http://127.0.0.1:{port}")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
            assert answer.read() == b"GET, and 0 bytes\n"
        ended = program.end(signal.SIGINT)
    assert (ended.code, ended.err) == (0, "")


def test_ets_cache():
    assert output_of("ets_cache.py") == [
        "[0, 1, 4, 9, 16, 25, 36, 49, 64, 81] with 10 computed",
        "a task reads hello",
        "a thread reads 49, and a default",
    ]
