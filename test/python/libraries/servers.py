"""Servers that the tests start for themselves: PostgreSQL and Redis, from Debian's packages."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

INITDB_OPTIONS = ("--no-sync", "--no-instructions", "--locale=C", "--encoding=UTF8")

#: Seconds a server has to start.
PATIENCE = 60


class MissingError(Exception):
    """A server's program is not installed."""

    def __init__(self, name: str, package: str) -> None:
        super().__init__(f"{name} is not installed (Debian: {package}); `make test` installs it")


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """A Redis server; its Unix socket."""
    program = shutil.which("redis-server")
    if program is None:
        raise MissingError("redis-server", "redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-", dir="/tmp") as folder:
        path = f"{folder}/socket"
        options = ("--port", "0", "--unixsocket", path, "--save", "", "--dir", folder)
        with _running([program, *options], Path(folder) / "log", lambda: _accepts(path)):
            yield path


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server without passwords; the folder of its Unix socket."""
    programs = _postgres_programs()
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            user = _ordinary_user()
            os.chown(folder, user.pw_uid, user.pw_gid)
            identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = f"{folder}/data"
        made = subprocess.run(
            [f"{programs}/initdb", "-D", data, "-U", "test", "-A", "trust", *INITDB_OPTIONS],
            cwd=folder,
            **identity,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")
        settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off"}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command = [f"{programs}/postgres", "-D", data, *options]
        ready = [f"{programs}/pg_isready", "-q", "-h", folder, "-U", "test"]
        with _running(
            command,
            Path(folder) / "log",
            lambda: subprocess.run(ready, check=False).returncode == 0,
            **identity,
        ):
            yield folder


def _postgres_programs() -> str:
    """The folder of initdb. Debian has it beside the PATH, and what is on it may be a wrapper."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if folders:
        return str(folders[-1].parent)
    on_path = shutil.which("initdb")
    if on_path is None:
        raise MissingError("PostgreSQL", "postgresql")
    return str(Path(on_path).resolve().parent)


def _ordinary_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL needs a user: neither of these exists")


@contextlib.contextmanager
def _running(
    command: list[str], log: Path, ready: Callable[[], bool], **identity: Any
) -> Iterator[None]:
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=log.parent, stdout=output, stderr=output, **identity)
    try:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} did not start: {log.read_text()}")
            time.sleep(0.02)  # Neither server reports when it is ready.
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0
