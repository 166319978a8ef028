"""Do processes start without a copy of the VM? Programs of their own, in nodes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import ERLANG_LOOP, run

PROGRAM = """
import asyncio, concurrent.futures, multiprocessing, os, sys

def square(number):
    return number * number, __name__

def serve(queue, parent):
    queue.put(("hello", os.getppid() == parent, "py_event_loop" in sys.modules))

async def in_executor():
    loop = asyncio.get_running_loop()
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        return await asyncio.gather(*(loop.run_in_executor(pool, square, n) for n in range(4)))

if __name__ == "__main__":
    assert multiprocessing.get_start_method(allow_none=True) is None
    print(asyncio.run(in_executor()))
    print(multiprocessing.get_start_method())
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=serve, args=(queue, os.getpid()))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
    with multiprocessing.Pool(2) as pool:
        print([number for number, _ in pool.map(square, range(5))])
"""

SAID = """[(0, '__mp_main__'), (1, '__mp_main__'), (4, '__mp_main__'), (9, '__mp_main__')]
spawn
('hello', True, False)
0
[0, 1, 4, 9, 16]
"""


@pytest.mark.parametrize("args", [["program.py"], ["-m", "program"], ["-m", "package.program"]])
def test_processes_of_a_program(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "program.py").write_text(PROGRAM)
    ended = run(ERLANG_LOOP, *args, cwd=tmp_path)
    assert (ended.out, ended.err) == (SAID, "")


def test_the_program_may_choose() -> None:
    code = """
import multiprocessing
multiprocessing.set_start_method("forkserver")
print(multiprocessing.get_start_method(), multiprocessing.get_context("fork"))
"""
    assert run(ERLANG_LOOP, "-c", code).out.startswith("forkserver <multiprocessing.context.Fork")


def test_nothing_is_imported_for_it() -> None:
    code = """
import sys
print({"asyncio", "multiprocessing"} & set(sys.modules))
import multiprocessing.context
print(multiprocessing.context.__loader__)
"""
    out = run(ERLANG_LOOP, "-c", code).out.splitlines()
    assert out[0] == "set()"
    assert "SourceFileLoader" in out[1]


def test_fork_warns_once_and_subprocesses_do_not() -> None:
    code = """
import os, subprocess, sys, warnings
subprocess.run(["true"], check=True)
subprocess.run(["true"], check=True, close_fds=False)
os.posix_spawn("/bin/true", ["true"], {})
os.wait()
for _ in range(2):
    sys.stderr.write("fork\\n")
    child = os.fork()
    if not child:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ended = run(ERLANG_LOOP, "-c", code)
    assert ended.out == "7\n7\n"
    lines = ended.err.splitlines()
    assert lines[0] == "fork"
    ours = [line for line in lines if "RuntimeWarning" in line]
    assert len(ours) == 1
    assert ours[0].startswith("<string>:9: RuntimeWarning: os.fork() copies the Erlang VM")
    # From 3.12 on Python has a warning of its own, for any process with threads.
    assert not [line for line in lines if "Warning" in line and "fork()" not in line]
