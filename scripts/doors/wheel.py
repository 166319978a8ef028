"""`scripts/try-wheel [--here] [wheel]`: README's Python door, where neither Erlang nor Rust is.

In a bare Debian 12 with python3, libpython and pip, if root and debootstrap are there and the
wheel is for that Debian's Python: TRY_ROOT=folder keeps it for the next time. Otherwise, and with
`--here`, in an empty folder of this machine, with a PATH on which Erlang and the compilers fail.

Without an argument the wheel is built first. Then it is installed, README's program runs, and
pytest and uvicorn from PyPI, but not with `--here`, the form that `make test` runs. The import in a
plain interpreter and a Python without libpython say what to do; a second environment is moved; and
nothing is left after `pip uninstall`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from doors import places, readme

#: The issue of the wheel: a small download, and a minute to the first result.
MOST_BYTES = 20_000_000
MOST_SECONDS = 60
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGES = "ca-certificates,python3,libpython3.11,python3-pip,python3-venv"

TEST = """import asyncio

def test_loop():
    async def name():
        return type(asyncio.get_running_loop()).__name__
    assert asyncio.run(name()) == 'ErlangEventLoop'
"""
APP = """async def app(scope, receive, send):
    if scope['type'] == 'http':
        await send({'type': 'http.response.start', 'status': 200, 'headers': []})
        await send({'type': 'http.response.body', 'body': b'hello'})
"""
SERVE = """
erlang-loop -m uvicorn --port 8931 app:app 2>uvicorn.log &
server=$!
until grep -q 'running on' uvicorn.log; do kill -0 $server; sleep 0.1; done
python -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8931').read())"
kill -INT $server
wait $server || :
"""
MOVED = """
python3 -m venv --without-pip first
pip --python first/bin/python install -q --no-index --no-deps WHEEL
mv first second
second/bin/python -m erlang_loop_node -c 'print(6 * 7)'
"""
NO_LIBPYTHON = """
python -c "
import sysconfig
sysconfig.get_config_vars().update(INSTSONAME='libpython3.so.9', LIBDIR='/nowhere')
import erlang_loop_node
erlang_loop_node.main()"
"""
#: What is left; pytest's cache and the lexer of pygments are not of this wheel.
UNINSTALL = """
pip uninstall --quiet --yes erlang_loop
find .venv -type f -iname '*erlang*' -not -path '*/__pycache__/*' -not -path '*/pygments/*'
"""

#: Runs a script of the shell in the empty folder: its exit code and its output.
Run = Callable[[str], "tuple[int, str]"]


def main() -> None:
    arguments = sys.argv[1:]
    here = "--here" in arguments
    given = [name for name in arguments if name != "--here"]
    with places.empty_folder() as folder:
        wheel = Path(given[0]).resolve() if given else build(folder / "dist")
        size = wheel.stat().st_size
        places.expect(size <= MOST_BYTES, "the wheel is too large", str(size))
        print(f"{wheel.name}: {size / 1e6:.1f} MB")
        if (
            not here
            and "-cp311-" in wheel.name
            and os.geteuid() == 0
            and shutil.which("debootstrap")
        ):
            in_debian(wheel, folder)
        else:
            on_this_machine(wheel, folder)


def build(to: Path) -> Path:
    python = places.python_of_the_build()
    places.do([python, places.ROOT / "scripts" / "make_wheel", to], places.ROOT, {**os.environ})
    (wheel,) = to.iterdir()
    return wheel


def on_this_machine(wheel: Path, folder: Path) -> None:
    project = folder / "erlang_loop"
    project.mkdir()
    (project / "dist").mkdir()
    shutil.copy(wheel, project / "dist")
    work = folder / "work"
    work.mkdir()
    env = places.environment(folder, (*places.COMPILERS, *places.ERLANG))
    # `python3` of README is the one that the wheel is for.
    (folder / "hidden" / "python3").symlink_to(places.python_of_the_build())
    print("on this machine, with a PATH without Erlang and compilers")
    steps(work, project, lambda script: shell(["bash", "-ec", script], work, env), pypi=False)


def in_debian(wheel: Path, folder: Path) -> None:
    """In a chroot. Its mounts are in a namespace of their own, and end with it."""
    root = Path(os.environ.get("TRY_ROOT") or folder / "debian").resolve()
    if not (root / ".complete").exists():
        bootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}"]
        command = ["unshare", "--mount", *bootstrap, "bookworm", str(root), MIRROR]
        places.do([*command], folder, {**os.environ})
        (root / ".complete").touch()
    # For pip, which may use a mirror here.
    for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(file, str(root) + file)
    # Where README says that it is.
    place = root / "path/to/erlang_loop/dist"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copy(wheel, place)
    work = Path(tempfile.mkdtemp(dir=root / "root"))
    within = "/" + str(work.relative_to(root))
    mounts = 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; cd "$1"; shift; exec "$@"'
    enter = ["unshare", "--mount", "sh", "-ec", mounts, "sh", str(root), "chroot", "."]
    env = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    env |= {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    print("in a bare Debian 12")
    try:
        # chroot starts in the root.
        steps(
            work,
            Path("/path/to/erlang_loop"),
            lambda script: shell([*enter, "bash", "-ec", f"cd {within}\n{script}"], work, env),
            pypi=True,
        )
    finally:
        shutil.rmtree(work)


def shell(command: list[str], folder: Path, env: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def steps(work: Path, project: Path, run: Run, pypi: bool) -> None:
    """All of it, in the folder `work`; the shell sees the project at `project`."""
    commands, program = readme.blocks("Python")[:2]
    (work / "program.py").write_text(program)

    def said(script: str, code: int = 0, active: bool = True) -> str:
        ended, output = run(("." + " .venv/bin/activate\n" if active else "") + script)
        places.expect(ended == code, f"exit code {ended} of:\n{script}", output)
        return output

    watch = places.Stopwatch()
    output = said(readme.at(commands, project), active=False)
    places.expect(output.endswith("b'hello\\n'\n6\n"), "README's program fails", output)
    seconds = watch.report("wheel, from an empty folder to the end of README's program")
    places.expect(seconds < MOST_SECONDS, "that is too long", output)

    said("erlang-loop --doctor")
    output = said("python -c 'import erlang_loop'", code=1)
    places.expect("run your program with `erlang-loop program.py`" in output, "no hint", output)
    output = said(NO_LIBPYTHON, code=1)
    sentence = r"erlang-loop: Python 3\.\d+ \(.*\) has no shared libpython: install .*\.\n"
    places.expect(re.fullmatch(sentence, output), "not one sentence", output)
    wheel = readme.at("/path/to/erlang_loop/dist/erlang_loop-*.whl", project)
    output = said(MOVED.replace("WHEEL", wheel))
    places.expect(output.endswith("42\n"), "it cannot be moved", output)
    if pypi:
        try_pytest_and_uvicorn(work, said)
    output = said(UNINSTALL)
    places.expect(output == "", "something is left", output)
    print("doctor, import, no libpython, moved, uninstalled: as they should be")


def try_pytest_and_uvicorn(work: Path, said: Callable[[str], str]) -> None:
    """These come from PyPI: without a network they are left out."""
    try:
        said("pip install --quiet --retries 0 --timeout 20 pytest uvicorn")
    except SystemExit as failed:
        last = str(failed).strip().splitlines()[-1]
        print(f"pytest and uvicorn are left out, as pip cannot install them: {last}")
        return
    (work / "test_loop.py").write_text(TEST)
    output = said("erlang-loop -m pytest -q")
    places.expect("1 passed in" in output, "pytest fails, or warns", output)
    (work / "app.py").write_text(APP)
    output = said(SERVE)
    places.expect("b'hello'" in output, "uvicorn fails", output)
    print("erlang-loop -m pytest, -m uvicorn: as they should be")


if __name__ == "__main__":
    main()
