"""Does the wheel run what README shows, in an environment with nothing but it?

It is built from what this project has built. The environment is a fresh one, with a plain
interpreter; for pytest and uvicorn it also finds the packages of the tests.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from command import PATIENCE, ROOT

pytestmark = [
    pytest.mark.ours,
    pytest.mark.skipif(not shutil.which("strip"), reason="strip is not installed"),
]


def call(*command: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """Without the paths that lead to this project."""
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith("ERL")
    }
    # As in a system without Erlang.
    variables["PATH"] = "/usr/bin:/bin"
    return variables


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, str(ROOT / "scripts" / "make_wheel"), str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert made.returncode == 0, made.stderr
    (built,) = folder.iterdir()
    return built


def create_environment(folder: Path) -> Path:
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def pip(folder: Path, *arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def install(folder: Path, wheel: Path) -> None:
    pip(folder, "install", "--quiet", "--no-index", "--no-deps", wheel)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = create_environment(tmp_path_factory.mktemp("environment") / "venv")
    install(folder, wheel)
    return folder


@pytest.fixture
def with_packages(installed: Path) -> Iterator[Path]:
    """The environment, which finds the packages of the tests for a while."""
    here = Path(pytest.__file__).parents[1]
    (site,) = (installed / "lib").glob("python*/site-packages")
    path = site / "packages_of_the_tests.pth"
    path.write_text(f"{here}\n")
    try:
        yield installed
    finally:
        path.unlink()


def test_the_wheel_is_small_and_names_no_place_of_this_machine(wheel):
    assert wheel.stat().st_size < 20_000_000
    assert re.search(r"-cp3\d+-cp3\d+t?-manylinux_2_\d+_\w+\.whl$", wheel.name)
    places = [str(ROOT).encode()]
    if sys.base_prefix not in ("/usr", "/usr/local"):
        places.append(sys.base_prefix.encode())
    with ZipFile(wheel) as opened:
        assert opened.testzip() is None
        names = opened.namelist()
        named = [name for name in names if any(place in opened.read(name) for place in places)]
    assert named == []
    licenses = [name.rpartition("/")[2] for name in names if "/licenses/" in name]
    assert {"LICENSE", "RUST_CRATES"} <= set(licenses)


def test_the_program_of_readme(installed, tmp_path):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page.split("\n## Python\n")[1]
    program = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "program.py").write_text(program)
    ended = call(installed / "bin" / "erlang-loop", "program.py", folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "b'hello\\n'\n6\n", "")


def test_exit_code_environment_and_interpreter(installed):
    program = (
        "import os, sys\n"
        "ours = ('ERLANG_LOOP', 'BINDIR', 'EMU', 'PROGNAME', 'ROOTDIR', 'LD_LIBRARY_PATH')\n"
        "print([name for name in os.environ if name.startswith(ours)])\n"
        "print(sys.executable, os.environ['PATH'])\n"
        "sys.exit(3)\n"
    )
    ended = call(installed / "bin" / "erlang-loop", "-c", program)
    assert (ended.returncode, ended.stderr) == (3, "")
    none, executable, path = ended.stdout.split()
    assert (none, path) == ("[]", "/usr/bin:/bin")
    assert Path(executable).parent == installed / "bin"


def test_pytest(with_packages, tmp_path):
    (tmp_path / "test_loop.py").write_text(
        "import asyncio\n\n"
        "def test_loop():\n"
        "    async def name():\n"
        "        return type(asyncio.get_running_loop()).__name__\n"
        "    assert asyncio.run(name()) == 'ErlangEventLoop'\n"
    )
    options = ("-q", "-p", "no:cacheprovider")
    ended = call(with_packages / "bin" / "erlang-loop", "-m", "pytest", *options, folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed in" in ended.stdout, "with warnings: " + ended.stdout


def test_uvicorn(with_packages, tmp_path):
    pytest.importorskip("uvicorn")
    (tmp_path / "app.py").write_text(
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'http':\n"
        "        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "        await send({'type': 'http.response.body', 'body': b'hello'})\n"
    )
    command = [with_packages / "bin" / "erlang-loop", "-m", "uvicorn", "--port", "0", "app:app"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr
            log = ""
            while not (port := re.search(r"running on http://127\.0\.0\.1:(\d+)", log)):
                line = server.stderr.readline()
                assert line, log
                log += line
            address = f"http://127.0.0.1:{port[1]}/"
            with contextlib.closing(urllib.request.urlopen(address, timeout=PATIENCE)) as reply:
                assert reply.read() == b"hello"
            server.send_signal(signal.SIGINT)
            server.stderr.read()
            server.wait(PATIENCE)
        finally:
            server.kill()


def test_import_in_a_plain_interpreter(installed):
    ended = call(installed / "bin" / "python", "-c", "import erlang_loop")
    assert ended.returncode == 1
    assert "run your program with `erlang-loop program.py`" in ended.stderr


def test_doctor(installed):
    ended = call(installed / "bin" / "erlang-loop", "--doctor")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.endswith("\nno faults\n")


def test_without_a_shared_libpython(installed):
    program = (
        "import sysconfig\n"
        "sysconfig.get_config_vars().update(INSTSONAME='libpython3.so.9', LIBDIR='/nowhere')\n"
        "import erlang_loop_node\n"
        "erlang_loop_node.main()\n"
    )
    ended = call(installed / "bin" / "python", "-c", program)
    assert ended.returncode == 1
    sentence = r"erlang-loop: Python 3\.\d+ \(.*\) has no shared libpython: install .*\.\n"
    assert re.fullmatch(sentence, ended.stderr)


def test_another_folder_and_uninstall(wheel, tmp_path):
    first = create_environment(tmp_path / "first")
    before = contents(first)
    install(first, wheel)
    second = tmp_path / "a second one"
    first.rename(second)
    # The first line of bin/erlang-loop has the old folder, as in every script that pip installs.
    ended = call(second / "bin" / "python", "-m", "erlang_loop_node", "-c", "print(6 * 7)")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "42\n", "")
    second.rename(first)
    pip(first, "uninstall", "--quiet", "--yes", "erlang_loop")
    assert contents(first) == before


def contents(folder: Path) -> set[Path]:
    """The files: pip also removes a folder that was empty before."""
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}
