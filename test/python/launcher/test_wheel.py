"""Does the wheel run what README shows, in an environment with nothing but it?

It is built from what this project has built. `scripts/try-wheel` does what a user would do first;
without `--here` it does so in a bare Debian. The other tests have a fresh environment with a plain
interpreter, which for pytest and uvicorn also finds the packages of the tests.
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


def test_way_in(wheel):
    """README's commands, and what needs no other package: see the script."""
    script = ROOT / "scripts" / "try-wheel"
    tried = subprocess.run(
        [script, "--here", wheel], capture_output=True, text=True, check=False, timeout=600
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "wheel, from an empty folder to the end of README's program: " in tried.stdout


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
