"""Does `bin/erlang-loop` behave like python?

Nearly every case runs the same arguments with both and compares exit code, stdout and stderr to
the letter: tracebacks included, so no frame of ours may show.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest
from command import ERLANG_LOOP, PYTHON, ROOT, Ended, environment, run, same_as_python

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
def test_pythons_environment_variables_apply(name: str, value: str) -> None:
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


def test_python_finalizes_at_the_end() -> None:
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
    program = "import asyncio\nasync def show(): print(type(asyncio.get_running_loop()).__name__)\n"
    # Python 3.14 warns of policies on every access.
    warnings = ("-W", "error", "-W", "ignore:'asyncio.get_event_loop_policy':DeprecationWarning")
    ended = run(ERLANG_LOOP, *warnings, "-c", program + code)
    assert (ended.code, ended.out) == (0, "ErlangEventLoop\n"), ended.err


def test_asyncio_is_not_imported_for_programs_without_it() -> None:
    code = "import sys; print([name for name in sys.modules if 'asyncio' in name])"
    assert same_as_python("-c", code).out == "[]\n"


def test_asyncio_shows_its_own_spec_and_source() -> None:
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


def test_virtual_environment_of_another_python_is_refused_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.1.4\n")
    code = "import sys; print(sys.prefix)"
    ended = run(ERLANG_LOOP, "-c", code, env=environment() | {"VIRTUAL_ENV": str(tmp_path)})
    assert str(tmp_path) not in ended.out
    assert f"VIRTUAL_ENV {tmp_path} has Python 3.1.4 but erlang_loop was built with" in ended.err


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("0.5", Ended(0, "0.0005\n", "")),
        (
            "a",
            Ended(
                1,
                "",
                "erlang-loop: switch_interval is a, and must be 0.001 to 10000 milliseconds.\n",
            ),
        ),
    ],
)
def test_the_switch_interval_is_a_setting(setting: str, expected: Ended) -> None:
    code = "import sys; print(sys.getswitchinterval())"
    flags = f"-erlang_loop switch_interval {setting}"
    assert run(ERLANG_LOOP, "-c", code, env=environment(ERL_FLAGS=flags)) == expected


def test_outside_a_node_the_import_says_how_to_run_it() -> None:
    env = environment(PYTHONPATH=str(ROOT / "python"))
    ended = run(PYTHON, "-c", "import erlang_loop", env=env)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("ImportError: erlang_loop works inside an Erlang")
    assert "bin/erlang-loop" in ended.err
    assert "During handling" not in ended.err


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
