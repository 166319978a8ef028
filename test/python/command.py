"""Runs programs with `bin/erlang-loop` and with plain python, for the tests of both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ERLANG_LOOP = str(ROOT / "bin" / "erlang-loop")
PYTHON = sys.executable
#: For events that follow at once; a busy machine may take long.
PATIENCE = 60.0


def environment(**changes: str) -> dict[str, str]:
    """Ours, with the virtual environment we run in, so that both commands use the same."""
    variables = {**os.environ, **changes}
    if sys.prefix != sys.base_prefix:
        variables["VIRTUAL_ENV"] = sys.prefix
    return variables


@dataclass
class Ended:
    """How a program ended. `code` is negative for a signal."""

    code: int
    out: str
    err: str


def run(command: str, *args: str | bytes, stdin: str = "", **options: Any) -> Ended:
    options.setdefault("env", environment())
    done = subprocess.run(
        [command, *args],
        input=stdin.encode(),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        **options,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def same_as_python(*args: str | bytes, stdin: str = "", **options: Any) -> Ended:
    """Runs the arguments with both commands, and returns how they ended: alike."""
    ours = run(ERLANG_LOOP, *args, stdin=stdin, **options)
    theirs = run(PYTHON, *args, stdin=stdin, **options)
    assert ours == theirs, f"ours:   {ours}\ntheirs: {theirs}"
    return ours


class Program:
    """A program that keeps running: it prints when it is ready for the next step."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_line(self, line: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().rstrip("\n") == line, self.end(signal.SIGKILL)

    def wait_asleep(self) -> None:
        """Until Python's main thread sleeps: a signal has something to end then.

        Without this a signal may come just before the sleep, after Python's last look for
        signals: every python sleeps to the end then.
        """
        wait_asleep(self.process.pid)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, number: int | None = None) -> Ended:
        if number is not None:
            self.signal(number)
        # Before communicate() closes stdin: its end must not be what ends the program.
        self.process.wait(PATIENCE)
        out, err = self.process.communicate(timeout=PATIENCE)
        return Ended(self.process.returncode, out, err)


def wait_asleep(process: int) -> None:
    tasks = Path(f"/proc/{process}/task")
    while True:
        states = {}
        for task in tasks.iterdir():
            # Threads that end are gone before their state can be read.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states[task.name] = (task / "stat").read_text()
        # In a python it is the first thread; in a node it has a name, which those it starts
        # inherit: the oldest.
        named = [int(task) for task, state in states.items() if "(python-main)" in state]
        main = states[str(min(named, default=process))]
        if main.rpartition(")")[2].split()[0] == "S":
            return


@contextlib.contextmanager
def not_ignored(numbers: Iterable[int]) -> Iterator[None]:
    """Signals that the suite was started to ignore (by nohup) have their default effect meanwhile.

    Programs that are started meanwhile inherit that.
    """
    ignored = [number for number in numbers if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def running(command: str, *args: str, **options: Any) -> Iterator[Program]:
    options.setdefault("env", environment())
    process = subprocess.Popen(
        [command, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        yield Program(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
