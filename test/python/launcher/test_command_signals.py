"""Do signals reach a program of `bin/erlang-loop` as they reach one of python's?"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys

import pytest
from command import (
    ERLANG_LOOP,
    PATIENCE,
    PYTHON,
    environment,
    not_ignored,
    run,
    running,
    same_as_python,
    wait_asleep,
)

WAITS = {
    "sleep": "import time; say(); time.sleep(1000)",
    "input": "say(); input()",
    "read": "import os; say(); os.read(0, 1)",
    "socket": "import socket; a, b = socket.socketpair(); say(); a.recv(1)",
    "lock": "import threading; lock = threading.Lock(); lock.acquire(); say(); lock.acquire()",
    "loop": "import asyncio; say(); asyncio.run(asyncio.sleep(1000))",
    "forever": "import asyncio; say(); loop = asyncio.new_event_loop(); loop.run_forever()",
    "executor": """
import asyncio, threading
async def main():
    loop = asyncio.get_running_loop()
    for _ in range(3):
        loop.run_in_executor(None, lambda: threading.Event().wait(0.5))
    say()
    await asyncio.sleep(1000)
asyncio.run(main())
""",
}
SAY = "def say(): print('ready', flush=True)\n"


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait: str) -> None:
    ends = []
    for command in (ERLANG_LOOP, PYTHON):
        with running(command, "-c", SAY + WAITS[wait]) as program:
            program.wait_line("ready")
            program.wait_asleep()
            ends.append(program.end(signal.SIGINT))
    ours, theirs = ends
    assert (ours.code, ours.out) == (-signal.SIGINT, "")
    if wait in ("sleep", "input", "read", "socket", "lock"):
        assert ours == theirs
    assert ours.err.splitlines()[-1] == "KeyboardInterrupt"


def test_ctrl_c_ends_a_busy_program() -> None:
    with running(ERLANG_LOOP, "-c", SAY + "say()\nwhile True: pass") as program:
        program.wait_line("ready")
        assert program.end(signal.SIGINT).code == -signal.SIGINT


def test_ctrl_c_cancels_the_main_task_first() -> None:
    code = """
import asyncio
async def main():
    try:
        say()
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        print("cleaning up", flush=True)
        await asyncio.sleep(0.01)
        print("clean", flush=True)
        raise
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""
    with running(ERLANG_LOOP, "-c", SAY + code) as program:
        program.wait_line("ready")
        program.wait_asleep()
        ended = program.end(signal.SIGINT)
    assert (ended.code, ended.out) == (0, "cleaning up\nclean\ninterrupted\n")


def test_second_ctrl_c_ends_a_task_that_does_not_listen() -> None:
    code = """
import asyncio
async def main():
    try:
        say()
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        print("no", flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    with running(ERLANG_LOOP, "-c", SAY + code) as program:
        program.wait_line("ready")
        program.wait_asleep()
        program.signal(signal.SIGINT)
        program.wait_line("no")
        program.wait_asleep()
        program.signal(signal.SIGINT)
        ended = program.end()
    assert ended.code == -signal.SIGINT


def test_handler_of_the_program_ends_no_wait() -> None:
    """A handler that returns: the loop goes on, and so does a sleep."""
    code = """
import asyncio, signal, time
signal.signal(signal.SIGINT, lambda *_: print("handler", flush=True))
async def main():
    say()
    started = time.monotonic()
    await asyncio.sleep(0.3)
    assert time.monotonic() - started >= 0.3
    say()
    time.sleep(0.3)
    print("end")
asyncio.run(main())
"""
    with running(ERLANG_LOOP, "-c", SAY + code) as program:
        for _ in range(2):
            program.wait_line("ready")
            program.signal(signal.SIGINT)
            program.wait_line("handler")
        assert program.end().out == "end\n"


def test_ignored_signals_stay_ignored() -> None:
    """As in `nohup` or a background job of a script: Ctrl-C or a hang-up ends no such program."""
    code = """if True:
        import signal, subprocess
        print([number for number in range(1, 32) if signal.getsignal(number) == signal.SIG_IGN])
        found = subprocess.check_output(["grep", "SigIgn", "/proc/self/status"], text=True)
        # 32 and 33 are glibc's, which ignores them in some children.
        print(int(found.split()[1], 16) & ~0x180000000)
    """
    traps = ["trap '' INT HUP QUIT TERM USR1 USR2 FPE ALRM", "trap '' INT QUIT", "trap '' HUP", ":"]
    for trap in traps:
        ours, theirs = (
            run("/bin/sh", "-c", f"{trap}; exec {command} -c '{code}'")
            for command in (ERLANG_LOOP, PYTHON)
        )
        assert ours == theirs


def test_a_program_started_by_nohup_survives_a_hang_up() -> None:
    code = SAY + "import asyncio; say(); asyncio.run(asyncio.sleep(0.5)); print('end')"
    with running("/usr/bin/nohup", ERLANG_LOOP, "-c", code) as program:
        program.wait_line("ready")
        program.wait_asleep()
        program.signal(signal.SIGHUP)
        ended = program.end()
    assert (ended.code, ended.out) == (0, "end\n")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT]
)
@pytest.mark.parametrize("wait", ["sleep", "loop"])
def test_signals_without_a_handler_kill(number: signal.Signals, wait: str) -> None:
    with not_ignored([number]), running(ERLANG_LOOP, "-c", SAY + WAITS[wait]) as program:
        program.wait_line("ready")
        program.wait_asleep()
        assert program.end(number).code == -number


def test_sigwait_receives_signals_beside_the_vms_threads() -> None:
    code = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR2])
say()
print(int(signal.sigwait([signal.SIGUSR2])), flush=True)
print(int(signal.sigwait([signal.SIGINT])))
"""
    with running(ERLANG_LOOP, "-c", SAY + code) as program:
        program.wait_line("ready")
        program.signal(signal.SIGUSR2)
        program.wait_line("12")
        assert program.end(signal.SIGINT).out == "2\n"


def test_children_have_pythons_signals() -> None:
    """Nothing blocked, nothing ignored: a child can be ended."""
    code = """
import subprocess, sys, threading
def show():
    text = subprocess.check_output(["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"], text=True)
    # 32 and 33 are glibc's, which ignores them in some children.
    print([int(line.split()[1], 16) & ~0x180000000 for line in text.splitlines()])
show()
thread = threading.Thread(target=show); thread.start(); thread.join()
child = subprocess.Popen(["sleep", "1000"]); child.terminate(); print(child.wait())
"""
    assert same_as_python("-c", code).out.endswith("-15\n")


# With a terminal


@pytest.mark.skipif(shutil.which("setsid") is None, reason="setsid is not installed")
def test_repl_on_a_terminal() -> None:
    """Prompts, results, Ctrl-C at the prompt and in a sleep, Ctrl-D."""
    ours, theirs = os.openpty()
    variables = environment(TERM="dumb", PYTHON_BASIC_REPL="1", PYTHONSTARTUP="")
    # Becomes the program, so that the process is the same.
    child = subprocess.Popen(
        ["setsid", "--ctty", ERLANG_LOOP, "-q"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=variables,
    )
    os.close(theirs)
    seen = b""

    def wait_for(text: bytes) -> None:
        nonlocal seen
        while text not in seen:
            assert select.select([ours], [], [], PATIENCE)[0], (text, seen)
            seen += os.read(ours, 4096)
        seen = seen[seen.index(text) + len(text) :]

    try:
        wait_for(b">>> ")
        os.write(ours, b"6 * 7\n")
        wait_for(b"42\r\n>>> ")
        wait_asleep(child.pid)
        os.write(ours, b"\x03")
        wait_for(b"KeyboardInterrupt\r\n>>> ")
        os.write(ours, b"import time; print('re' + 'ady'); time.sleep(1000)\n")
        wait_for(b"ready\r\n")
        wait_asleep(child.pid)
        os.write(ours, b"\x03")
        wait_for(b"KeyboardInterrupt\r\n>>> ")
        os.write(ours, b"import asyncio; asyncio.run(asyncio.sleep(0, 'sl' + 'ept'))\n")
        wait_for(b"'slept'\r\n>>> ")
        os.write(ours, b"\x04")
        # Python 3.14 ends a session in which something was interrupted as if that had ended it.
        assert child.wait(60) == (-signal.SIGINT if sys.version_info >= (3, 14) else 0)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
