"""Counts the instructions of one thread by single steps, where neither a counter of the processor
nor valgrind can: virtual machines have none of the former, and the latter does not run the VM's own
compiler.

The program (counted.py) says which thread it is, and where the count begins and where it ends. A
step takes some 20 us, so what goes by the clock is met as on a very slow machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contenders import ROOT

#: Of linux/ptrace.h and linux/wait.h.
_CONT, _SINGLESTEP, _DETACH, _SEIZE = 7, 9, 17, 0x4206
_ALL_CHILDREN = 0x40000000

#: In seconds; counted.py takes some four.
LIMIT = 600

#: No other program sends it, and a process that is not traced ignores it.
_MARK = signal.SIGURG

_libc = ctypes.CDLL(None, use_errno=True)


def mark() -> None:
    """The count begins here, or ends. The thread that calls it is the one that is counted."""
    signal.pthread_kill(threading.get_ident(), _MARK)


def count(words: list[str], limit: float = LIMIT) -> int:
    """The instructions of a program's thread between its two marks, in user mode.

    The program prints the thread's number, and continues on request. It has `limit` seconds
    to come to its marks.
    """
    with subprocess.Popen(
        words, cwd=ROOT, env=_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        with _killed_after(limit, program):
            thread = _number(program.stdout.readline())
            with _on_one_processor(thread):
                _ptrace(_SEIZE, thread)
                program.stdin.write("\n")
                program.stdin.flush()
                _until_mark(thread)
                steps = _until_mark(thread, _SINGLESTEP)
                _ptrace(_DETACH, thread)
    return steps


@contextmanager
def _killed_after(limit: float, program: subprocess.Popen[str]) -> Iterator[None]:
    """Or at once, by whatever is raised in here."""
    late = threading.Event()

    def end() -> None:
        late.set()
        program.kill()

    timer = threading.Timer(limit, end)
    timer.start()
    try:
        yield
    except BaseException as reason:
        program.kill()
        if late.is_set():
            raise TimeoutError(f"no mark after {limit} s: {program.args!r}") from reason
        raise
    finally:
        timer.cancel()


def _number(line: str) -> int:
    if not line.strip().isdigit():
        raise ChildProcessError(f"the program did not say which thread it is: {line!r}")
    return int(line)


def _env() -> dict[str, str]:
    """The watchdog would find that turns take seconds, and say so."""
    flags = f"{os.environ.get('ERL_FLAGS', '')} -erlang_loop stuck_after infinity"
    return {**os.environ, "PYTHONPATH": str(ROOT), "ERL_FLAGS": flags}


@contextmanager
def _on_one_processor(thread: int) -> Iterator[None]:
    """Each waits for the other at every step, and to wake another processor takes long."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        os.sched_setaffinity(thread, {min(before)})
        yield
    finally:
        os.sched_setaffinity(0, before)


def _until_mark(thread: int, request: int = _CONT) -> int:
    """Lets it run up to its next mark; how often it stopped on the way."""
    stops = 0
    # The first time it runs already, if it is to run freely.
    signal_of = _stopped(thread) if request == _CONT else _step(thread, request)
    while signal_of != _MARK:
        stops += 1
        passed_on = 0 if signal_of == signal.SIGTRAP else signal_of
        signal_of = _step(thread, request, passed_on)
    return stops


def _step(thread: int, request: int, passed_on: int = 0) -> int:
    _ptrace(request, thread, passed_on)
    return _stopped(thread)


def _stopped(thread: int) -> int:
    """Waits until it stops; the signal that stopped it."""
    _, status = os.waitpid(thread, _ALL_CHILDREN)
    if not os.WIFSTOPPED(status):
        raise ChildProcessError(f"the program ended before its mark: {status:#x}")
    return os.WSTOPSIG(status)


def _ptrace(request: int, thread: int, data: int = 0) -> None:
    if _libc.ptrace(request, thread, None, ctypes.c_void_p(data)) == -1:
        problem = ctypes.get_errno()
        raise OSError(problem, f"ptrace: {os.strerror(problem)}")
