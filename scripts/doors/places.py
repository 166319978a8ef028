"""Where the scripts work: an empty folder, a prebuilt library, a PATH without compilers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILERS = ("cargo", "rustc", "cc", "gcc", "clang")
ERLANG = ("erl", "erlc", "escript", "rebar3", "elixir", "mix")


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="erlang_loop-") as name:
        yield Path(name)


def python_of_the_build() -> str:
    """The interpreter that this project was built with."""
    info = ROOT / "priv" / "build_info"
    found = info.exists() and re.search(r'{python,\s*"([^"]+)"}', info.read_text("utf-8"))
    if not found:
        raise SystemExit("erlang_loop: nothing is built: run `make build` first.")
    return found[1]


#: What a build needs; without what an earlier one has written.
PARTS = (
    *("bin", "elixir", "erl_src", "native", "priv", "python", "scripts"),
    *("Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "mix.exs", "rebar.config", "rebar.lock"),
)
BUILT = shutil.ignore_patterns("py_nif.so", "build_info", "cp3*", "__pycache__", ".build*")


def project(folder: Path) -> Path:
    """A copy of this project without what was built, and a library as `make dist` has it."""
    copy = folder / "erlang_loop"
    copy.mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, copy / name)
    built = {**os.environ, "PYTHON": python_of_the_build()}
    do([ROOT / "scripts" / "dist", copy / "dist"], ROOT, built)
    return copy


def environment(folder: Path, without: tuple[str, ...], **changes: str) -> dict[str, str]:
    """Ours, in which these commands are not there."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    for command in without:
        program = hidden / command
        program.write_text(f"#!/bin/sh\necho '{command} must not be needed' >&2\nexit 127\n")
        program.chmod(0o755)
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "MAKEFLAGS", "MAKELEVEL")
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith(("ERL", "CARGO"))
    }
    # Otherwise `python3` would be that of .venv.
    path = [
        part
        for part in variables.get("PATH", os.defpath).split(os.pathsep)
        if not Path(part).parent.joinpath("pyvenv.cfg").exists()
    ]
    return {
        **variables,
        "PATH": os.pathsep.join([str(hidden), *path]),
        "TERM": "dumb",
        "MIX_HOME": str(folder / "mix"),
        "HEX_HOME": str(folder / "hex"),
        **changes,
    }


def do(command: list[str | Path], folder: Path, env: dict[str, str]) -> str:
    """The output of a command; one that fails ends the script."""
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
    if done.returncode:
        words = " ".join(map(str, command))
        raise SystemExit(f"{words} failed with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def expect(condition: object, what: str, output: str) -> None:
    if not condition:
        raise SystemExit(f"{what}:\n{output}")


class Stopwatch:
    """From the first command to the first result."""

    def __init__(self) -> None:
        self.begun = time.monotonic()

    def report(self, what: str) -> float:
        seconds = time.monotonic() - self.begun
        print(f"{what}: {seconds:.1f} s", flush=True)
        return seconds
