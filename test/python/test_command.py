"""Does `bin/erlang-loop` behave like python?

Nearly every case runs the same arguments with both and compares exit code, stdout and stderr to
the letter: tracebacks included, so no frame of ours may show.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command import (
    ERLANG_LOOP,
    PATIENCE,
    PYTHON,
    ROOT,
    environment,
    run,
    running,
    same_as_python,
    wait_asleep,
)

# What it is given


WHO = """
import pickle, sys
class Thing: pass
print(sys.argv, repr(sys.path[0]), __name__, globals().get("__file__"), __package__)
print(sys.modules["__main__"].__dict__ is globals())
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
if __name__ == "__main__":
    print("main")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(WHO)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("print('package')\n")
    (tmp_path / "package" / "__main__.py").write_text(WHO)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", WHO)
    return tmp_path


@pytest.mark.parametrize(
    "args",
    [
        ["script.py"],
        ["script.py", "-c", "--help", "", "two words", "*", "$HOME", "-extra", "--", "+S"],
        ["-m", "script", "a", "-b"],
        ["-m", "package", "a"],
        ["package"],
        ["archive.zip", "a"],
        ["-c", WHO, "a", "-m", "b"],
        ["-"],
        ["-", "a"],
    ],
    ids=lambda args: " ".join(args)[:20],
)
def test_program_is_found_as_by_python(folder: Path, args: list[str]) -> None:
    ended = same_as_python(*args, stdin=WHO, cwd=folder)
    assert ended.code == 0
    assert ended.out.endswith("True\nTrue\nmain\n")


def test_program_comes_from_stdin(folder: Path) -> None:
    assert same_as_python(stdin=WHO, cwd=folder).out.endswith("main\n")


def test_arguments_are_bytes(tmp_path: Path) -> None:
    code = "import os, sys; print([os.fsencode(word) for word in sys.argv])"
    ended = same_as_python("-c", code, b"\xff\xfe", "žluť".encode(), cwd=tmp_path)
    assert "\\xff\\xfe" in ended.out


def test_program_reads_stdin() -> None:
    code = "import sys; print(input(), sys.stdin.read(), sys.stdin.isatty())"
    assert same_as_python("-c", code, stdin="one\ntwo\nthree").out == "one two\nthree False\n"


@pytest.mark.parametrize(
    "options",
    [
        ["-V"],
        ["--version"],
        ["-VV"],
        ["-h"],
        ["-u"],
        ["-q"],
        ["-O"],
        ["-OO"],
        ["-B"],
        ["-E"],
        ["-s"],
        ["-X", "dev"],
        ["-X", "utf8=0"],
        ["-W", "error"],
        ["-Walways", "-b"],
        ["--unknown"],
        ["-Z"],
        ["-c"],
        ["-m"],
        ["-X", "importtime=x", "--check-hash-based-pycs", "sometimes"],
    ],
    ids=" ".join,
)
def test_options_are_pythons(options: list[str]) -> None:
    code = """
import sys, warnings
print(sys.flags, sys.warnoptions, sys._xoptions)
print(sys.stdout.line_buffering, sys.stdout.write_through)
assert not __debug__, "asserts are on"
"""
    options = options if options in (["-c"], ["-m"]) else [*options, "-c", code]
    ours = run(ERLANG_LOOP, *options)
    theirs = run(PYTHON, *options)
    assert ours == theirs


def test_interactive_after_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("x = 41\n")
    ended = same_as_python("-i", "script.py", stdin="x + 1\n1 / 0\nexit(5)\n", cwd=tmp_path)
    assert (ended.code, ended.out) == (5, "42\n")


def test_environment_is_the_callers(tmp_path: Path) -> None:
    code = "import os; print(sorted(os.environ.items()))"
    variables = environment(BINDIR="/mine", ROOTDIR="", PYTHONHASHSEED="0")
    # A shell sets these by itself.
    for name in ("_", "PWD", "OLDPWD", "SHLVL", "EMU", "PROGNAME"):
        variables.pop(name, None)
    ours = run(ERLANG_LOOP, "-c", code, env=variables, cwd=tmp_path)
    theirs = run(PYTHON, "-c", code, env=variables, cwd=tmp_path)
    added = set(eval(ours.out)) ^ set(eval(theirs.out))
    assert {name for name, _ in added} <= {"PWD"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "/somewhere"),
        ("PYTHONUNBUFFERED", "1"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONWARNINGS", "error::UserWarning"),
        ("PYTHONHASHSEED", "7"),
        ("PYTHONIOENCODING", "latin-1"),
        ("PYTHONOPTIMIZE", "2"),
        ("PYTHONDEVMODE", "1"),
        ("PYTHONUTF8", "1"),
    ],
)
def test_pythons_variables_are_honoured(name: str, value: str) -> None:
    code = """
import sys
path = [entry for entry in sys.path if not entry.endswith("priv/python")]
print(path, sys.flags, sys.stdout.encoding, sys.warnoptions)
"""
    if name == "PYTHONHASHSEED":
        code += "print(hash('text'))"
    assert same_as_python("-c", code, env=environment(**{name: value})).code == 0


# How it ends


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(259)", 3),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit('a word')", 1),
        ("import sys; sys.exit([1])", 1),
        ("import os; os._exit(9)", 9),
        ("raise SystemExit(4)", 4),
        ("1 / 0", 1),
        ("def f(): g()\ndef g(): raise KeyError('x')\nf()", 1),
        ("try: 1/0\nexcept Exception as e: raise ValueError('after') from e", 1),
        ("def broken(:", 1),
        ("import nothing_of_this_name", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import asyncio\nasync def main(): raise ValueError('x')\nasyncio.run(main())", 1),
        ("import asyncio, sys\nasync def main(): sys.exit(6)\nasyncio.run(main())", 6),
        ("import sys; sys.excepthook = lambda *e: print('hook', e[1])\n1/0", 1),
        ("import threading\nthreading.Thread(target=lambda: 1/0, name='T').start()", 0),
    ],
    ids=range(21),
)
@pytest.mark.parametrize("way", ["-c", "script"])
def test_ends_as_python(code: str, status: int, way: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(code)
    args = ["-c", code] if way == "-c" else ["script.py"]
    ours = run(ERLANG_LOOP, *args, cwd=tmp_path)
    theirs = run(PYTHON, *args, cwd=tmp_path)
    # The frames of asyncio's own loop and of ours differ; nothing else does.
    if "asyncio" not in code:
        assert ours.err == theirs.err
    else:
        assert ours.err.splitlines()[-1:] == theirs.err.splitlines()[-1:]
    assert (ours.code, ours.out) == (theirs.code, theirs.out) == (status, theirs.out)


@pytest.mark.parametrize("args", [["no_such_file.py"], ["-m", "no_such_module"], ["/"]], ids=str)
def test_program_that_is_not_there(args: list[str], tmp_path: Path) -> None:
    assert same_as_python(*args, cwd=tmp_path).code in (1, 2)


def test_everything_is_finished_at_the_end() -> None:
    """Threads are joined, exit handlers run in order, objects go, buffers are written."""
    code = """
import atexit, sys, threading, time, weakref
class Noisy:
    def __del__(self): print("deleted")
noisy = Noisy()
atexit.register(print, "exit handler 1")
atexit.register(print, "exit handler 2")
weakref.finalize(noisy, print, "finalized")
go = threading.Event()
threading.Thread(target=lambda: (go.wait(), print("thread"))).start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.Timer(0.1, go.set).start()
sys.stdout.write("main ")
"""
    ended = same_as_python("-c", code)
    assert ended.out.split() == (
        ["main", "thread", "finalized", "exit", "handler", "2", "exit", "handler", "1", "deleted"]
    )


def test_many_ends_are_clean() -> None:
    """The VM's threads go on while the process ends: none of them may crash it."""
    for _ in range(15):
        assert run(ERLANG_LOOP, "-c", "print('x')").code == 0


def test_stdout_that_cannot_be_written() -> None:
    code = "print('x' * 100_000)"
    for command in (ERLANG_LOOP, PYTHON):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [command, "-c", code],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                env=environment(),
            )
        assert done.returncode == 1 or done.returncode == 120
        assert b"No space left on device" in done.stderr


def test_output_order_is_pythons() -> None:
    """What goes to one pipe arrives in the order of python's buffering."""
    code = "import sys\nfor n in range(3): print(n); print(n, file=sys.stderr)"
    texts = [
        subprocess.run(
            [command, option, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
            env=environment(),
        ).stdout
        for command in (ERLANG_LOOP, PYTHON)
        for option in ("-u", "-b")
    ]
    assert texts[:2] == texts[2:]


# What it is more than python


@pytest.mark.parametrize(
    "code",
    [
        "asyncio.run(show())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(show()); loop.close()",
        "import asyncio.runners\nwith asyncio.Runner() as runner: runner.run(show())",
        "loop = asyncio.get_event_loop_policy().new_event_loop()\n"
        "loop.run_until_complete(show()); loop.close()",
        "import unittest\nclass Case(unittest.IsolatedAsyncioTestCase):\n"
        "    async def test(self): await show()\n"
        "unittest.TextTestRunner(open('/dev/null', 'w')).run(Case('test'))",
    ],
    ids=["run", "new_event_loop", "Runner", "policy", "unittest"],
)
def test_default_loop_is_ours(code: str) -> None:
    if "Runner()" in code and sys.version_info < (3, 11):
        pytest.skip("this Python has no Runner")
    program = "import asyncio\nasync def show(): print(type(asyncio.get_running_loop()).__name__)\n"
    # Python 3.14 warns of policies, whoever asks for one.
    warnings = ("-W", "error", "-W", "ignore:'asyncio.get_event_loop_policy':DeprecationWarning")
    ended = run(ERLANG_LOOP, *warnings, "-c", program + code)
    assert (ended.code, ended.out) == (0, "ErlangEventLoop\n"), ended.err


def test_asyncio_is_not_imported_for_programs_without_it() -> None:
    code = "import sys; print([name for name in sys.modules if 'asyncio' in name])"
    assert same_as_python("-c", code).out == "[]\n"


def test_asyncio_looks_as_ever() -> None:
    code = """
import asyncio, inspect
print(asyncio.__spec__, asyncio.__loader__, asyncio.__file__)
print(inspect.getsource(asyncio)[:20])
"""
    ours = run(ERLANG_LOOP, "-c", code).out.split(" at 0x")[0]
    assert ours == run(PYTHON, "-c", code).out.split(" at 0x")[0]


def test_asyncios_own_repl() -> None:
    ended = run(
        ERLANG_LOOP,
        "-m",
        "asyncio",
        stdin="await asyncio.sleep(0.001, 'slept')\ntype(asyncio.get_running_loop()).__name__\n",
    )
    assert "'slept'" in ended.out
    assert "'ErlangEventLoop'" in ended.out


def test_erlang_logs_to_stderr() -> None:
    """stdout is the program's alone."""
    code = "import asyncio; asyncio.run(asyncio.sleep(0)); print('out')"
    ended = run(ERLANG_LOOP, "-c", code)
    assert ended.out == "out\n"


# Where it is found


def test_works_through_a_symlink_and_from_anywhere(tmp_path: Path) -> None:
    link = tmp_path / "py"
    link.symlink_to(ERLANG_LOOP)
    (tmp_path / "second").symlink_to("py")
    ended = run(str(tmp_path / "second"), "-c", "import erlang_loop; print('ok')", cwd="/")
    assert ended.out == "ok\n", ended.err


def test_unbuilt_project_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    copy = shutil.copy(ERLANG_LOOP, tmp_path / "bin")
    ended = run(str(copy), "-c", "pass")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"erlang-loop: {tmp_path} is not built: run `make build` there.\n"


def test_active_virtual_environment_is_used(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(venv)], check=True)
    code = "import sys; print(sys.prefix)"
    ended = run(ERLANG_LOOP, "-c", code, env=environment() | {"VIRTUAL_ENV": str(venv)})
    assert (ended.out, ended.err) == (f"{venv}\n", "")


def test_virtual_environment_of_another_python_is_refused_aloud(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.1.4\n")
    code = "import sys; print(sys.prefix)"
    ended = run(ERLANG_LOOP, "-c", code, env=environment() | {"VIRTUAL_ENV": str(tmp_path)})
    assert str(tmp_path) not in ended.out
    assert f"VIRTUAL_ENV {tmp_path} has Python 3.1.4 but erlang_loop was built with" in ended.err


def test_outside_a_node_the_import_says_how_to_run_it() -> None:
    env = environment(PYTHONPATH=str(ROOT / "python"))
    ended = run(PYTHON, "-c", "import erlang_loop", env=env)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("ImportError: erlang_loop works inside an Erlang")
    assert "bin/erlang-loop" in ended.err
    assert "During handling" not in ended.err


# Ctrl-C and other signals

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
never = threading.Event()
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
    if sys.version_info < (3, 11):
        pytest.skip("asyncio.run handles SIGINT since Python 3.11")
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
    if sys.version_info < (3, 11):
        pytest.skip("asyncio.run handles SIGINT since Python 3.11")
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


def test_ignored_ctrl_c_stays_ignored() -> None:
    """As in `nohup` or a background job of a script: python leaves SIGINT alone then."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    for command in (ERLANG_LOOP, PYTHON):
        shell = f"trap '' INT; exec {command} -c '{code}'"
        assert run("/bin/sh", "-c", shell).out == "True\n"


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT]
)
@pytest.mark.parametrize("wait", ["sleep", "loop"])
def test_signals_nobody_handles_kill(number: signal.Signals, wait: str) -> None:
    with running(ERLANG_LOOP, "-c", SAY + WAITS[wait]) as program:
        program.wait_line("ready")
        program.wait_asleep()
        assert program.end(number).code == -number


def test_sigwait_meets_no_thread_of_the_vm() -> None:
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


# What it prints and logs


STREAMS = """
import logging, sys, threading
print(sys.stdout, sys.stderr, sys.stdout.fileno(), type(sys.stdout.buffer))
print(sys.unraisablehook, threading.excepthook)
print(logging.getLogger().handlers, logging.basicConfig.__module__)
logging.warning("on %s", "stderr")
"""


def test_streams_and_logging_are_pythons_own() -> None:
    """In a node of Erlang's they go to Erlang; a command line keeps them."""
    ended = same_as_python("-c", STREAMS)
    assert ended.code == 0
    assert ended.err == "WARNING:root:on stderr\n"
