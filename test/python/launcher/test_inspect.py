"""`bin/erlang-loop -m erlang_loop.inspect`: the tasks of another process, in a terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ERLANG_LOOP

pytestmark = pytest.mark.ours

PROGRAM = """
import asyncio

async def play():
    await asyncio.Event().wait()

async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(play(), name="Levitate")
        print("ready", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def environment(short_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_RUNTIME_DIR": str(short_path)}


@pytest.fixture
def program(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    inspectable = {**environment, "ERLANG_LOOP_INSPECT": "1"}
    command = [ERLANG_LOOP, "-c", PROGRAM]
    with subprocess.Popen(command, env=inspectable, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started
        started.kill()


def inspect(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [ERLANG_LOOP, "-m", "erlang_loop.inspect", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_tree_of_another_process(
    program: subprocess.Popen[str], environment: dict[str, str]
) -> None:
    tree = inspect(environment)
    assert (tree.returncode, tree.stderr) == (0, "")
    assert "(T) Levitate" in tree.stdout
    assert "play <string>:5" in tree.stdout
    unknown = inspect(environment, "ps", "nobody", "--pid", str(program.pid))
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "there is no such loop" in unknown.stderr


def test_a_process_that_was_killed_is_not_found(
    program: subprocess.Popen[str], environment: dict[str, str], short_path: Path
) -> None:
    program.kill()
    program.wait()
    assert list(short_path.glob("erlang_loop/*.sock")) != []
    found = inspect(environment, "loops")
    assert found.returncode == 1
    assert "no node has a socket" in found.stderr
    assert list(short_path.glob("erlang_loop/*.sock")) == []
    assert "has no socket" in inspect(environment, "--pid", "1").stderr
