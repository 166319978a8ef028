"""Builds virtual environments from a project's list of packages: a program that py_env.erl runs.

    environments.py path KIND FILE FOLDER     where the environment is, or would be
    environments.py build KIND FILE FOLDER    builds it, if it is not there
    environments.py clean FOLDER KEEP         removes all others

KIND is `requirements` or `pyproject`. The interpreter that runs this is the one of the environment.
What is installed are the dependencies, not the project: its code is in `python_path`.

An environment's name is a hash of what determines it: the version of Python and the content of
FILE, of the files that it includes, and of uv.lock. So a changed list is another environment, and
one that is there needs no network. It is built under another name and renamed at the end. A lock on
a file lets one process build; the system releases it when that process ends in whatever way. The
end of stdin ends this program and its tools: the node is gone, or the process that asked.

Lines on stdout: progress; `= ` and the result; `! ` and a sentence that says what is wrong.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec

UNFINISHED = ".unfinished"
INCLUDED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]\s*(\S+)", re.MULTILINE)
NO_NETWORK = re.compile(
    r"NewConnectionError|Max retries exceeded|Temporary failure in name resolution|dns error"
    r"|Name or service not known|error sending request|Network is unreachable"
)


class RefusedError(Exception):
    """Its text is a sentence without its end."""


def main(command: str, *arguments: str) -> None:
    # A group of its own, with the tools; the VM's child setup usually gives it one.
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        if command == "path":
            say("= " + path(*arguments))
        elif command == "build":
            say("= " + build(*arguments))
        elif command == "clean":
            for removed in clean(*arguments):
                say("= " + removed)
    except RefusedError as refused:
        fail(str(refused))
    except OSError as error:
        fail(f"{error.filename or arguments[-1]}: {error.strerror}")


def end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


def say(line: str) -> None:
    print(line, flush=True)


def fail(sentence: str) -> None:
    say(f"! {sentence}.")
    sys.exit(1)


def path(kind: str, file: str, folder: str) -> str:
    """The folder of the environment."""
    digest = hashlib.sha256(kind.encode())
    for content in contents(kind, file):
        digest.update(hashlib.sha256(content).digest())
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    tag = "cp{}{}{}".format(*sys.version_info[:2], threads)
    return os.path.join(os.path.abspath(folder), f"{tag}-{digest.hexdigest()[:16]}")


def contents(kind: str, file: str) -> Iterator[bytes]:
    """What determines the environment."""
    waiting = [os.path.abspath(file)]
    if kind == "pyproject" and os.path.exists(lock_file(file)):
        waiting.append(lock_file(file))
    seen = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        with open(name, "rb") as opened:
            content = opened.read()
        yield content
        if kind == "requirements":
            included = INCLUDED.findall(content.decode("utf-8", "replace"))
            waiting += [os.path.join(os.path.dirname(name), other) for other in included]


def lock_file(file: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(file)), "uv.lock")


def is_there(place: str) -> bool:
    """Its python is a link to an interpreter, which may have been removed."""
    return os.path.exists(os.path.join(place, "bin", "python"))


def build(kind: str, file: str, folder: str) -> str:
    place = path(kind, file, folder)
    if is_there(place):
        return place
    os.makedirs(folder, exist_ok=True)
    with locked(place):
        # Another process may have built it meanwhile.
        if not is_there(place):
            say(f"building the environment of {os.path.abspath(file)} in {place}")
            unfinished = place + UNFINISHED
            # Of a build that was interrupted.
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                fill(kind, os.path.abspath(file), unfinished)
                finish(unfinished, place)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return place


@contextlib.contextmanager
def locked(place: str) -> Iterator[None]:
    with open(place + ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process, which builds {place}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def finish(unfinished: str, place: str) -> None:
    """Renames it. Scripts in it name their interpreter by its full path."""
    programs = os.path.join(unfinished, "bin")
    for name in os.listdir(programs):
        program = os.path.join(programs, name)
        if os.path.islink(program):
            continue
        with open(program, "rb") as opened:
            content = opened.read()
        if unfinished.encode() in content:
            with open(program, "wb") as opened:
                opened.write(content.replace(unfinished.encode(), place.encode()))
    # If the interpreter of an older one is gone.
    shutil.rmtree(place, ignore_errors=True)
    os.rename(unfinished, place)


def fill(kind: str, source: str, to: str) -> None:
    """Creates an environment and installs the packages, with uv if it is there."""
    uv = shutil.which("uv")
    python = os.path.join(to, "bin", "python")
    if uv:
        run(source, [uv, "venv", "--python", sys.executable, to])
        install = [uv, "pip", "install", "--python", python]
    elif find_spec("pip"):
        run(source, [sys.executable, "-m", "venv", "--without-pip", to])
        install = [sys.executable, "-m", "pip", "--python", python, "install", "--progress-bar=off"]
    else:
        run(source, [sys.executable, "-m", "venv", to])
        install = [python, "-m", "pip", "install", "--progress-bar=off"]
    packages = ["-r", source] if kind == "requirements" else project(source, uv, to)
    if packages:
        run(source, [*install, *packages])


def project(source: str, uv: str | None, to: str) -> list[str]:
    """Arguments that name the dependencies of a pyproject.toml."""
    if os.path.exists(lock_file(source)):
        if not uv:
            raise RefusedError(
                f"{lock_file(source)} needs uv, which is not on the PATH: install it, or write "
                "requirements.txt with `uv export` and set that"
            )
        exported = os.path.join(to, "requirements.txt")
        command = [uv, "export", "--frozen", "--no-dev", "--no-emit-project", "--quiet"]
        run(source, [*command, "--output-file", exported])
        return ["-r", exported]
    with open(source, "rb") as opened:
        try:
            described = tomllib.load(opened).get("project", {})
        except tomllib.TOMLDecodeError as error:
            raise RefusedError(f"{source} is not valid TOML: {error}") from None
    if "dependencies" in described.get("dynamic", ()):
        raise RefusedError(f"{source} says that its dependencies are dynamic, so it has no list")
    return list(described.get("dependencies", ()))


def run(source: str, command: list[str]) -> None:
    """Runs a tool, whose lines are the progress."""
    lines = []
    with subprocess.Popen(
        command,
        # Paths in a list of requirements are relative to it.
        cwd=os.path.dirname(source),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as tool:
        assert tool.stdout
        for line in tool.stdout:
            if line.strip():
                lines.append(line.rstrip())
                say("  " + line.rstrip())
    if tool.returncode:
        raise RefusedError(f"the packages of {source} cannot be installed: {reason(lines)}")


def reason(lines: list[str]) -> str:
    """What a tool says is wrong, on one line."""
    if any(NO_NETWORK.search(line) for line in lines):
        return "the package index cannot be reached, is there a network"
    if any("No space left on device" in line for line in lines):
        return "there is no space left on the device"
    for number, line in enumerate(lines):
        if line.lstrip().startswith("ERROR: "):
            return line.strip().removeprefix("ERROR: ").rstrip(".")
        # uv writes a tree.
        if line.lstrip().lower().startswith(("error: ", "× ")):  # noqa: RUF001
            words = " ".join(lines[number:]).split()
            text = " ".join(word for word in words if not re.fullmatch(r"[^\w(]+", word))
            return text.removeprefix("error: ").rstrip(".")
    return lines[-1].strip().rstrip(".") if lines else "no reason is given"


def clean(folder: str, keep: str) -> Iterator[str]:
    """Removes the environments but `keep`, and those that another process builds."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in sorted(names):
        if not re.fullmatch(r"cp\d+t?-[0-9a-f]{16}", name.removesuffix(UNFINISHED)):
            continue
        place = os.path.join(os.path.abspath(folder), name.removesuffix(UNFINISHED))
        if place == keep and not name.endswith(UNFINISHED):
            continue
        with open(place + ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(os.path.join(folder, name))
        yield os.path.join(os.path.abspath(folder), name)


if __name__ == "__main__":
    main(*sys.argv[1:])
