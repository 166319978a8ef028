"""ASGI servers: ours, uvicorn on this loop and on uvloop, granian.

Each is a program of its own, started as its users start it, with one worker and no access log.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench import load_client
from bench.asgi_apps import BODY
from bench.cases.web import needs
from bench.contenders import ROOT, python
from bench.registry import Budget, Sample, Unavailable, case

GROUP = "serving"
IN_A_NODE = str(ROOT / "bin/erlang-loop")
CONNECTIONS = 64
#: Seconds for a server to start.
PATIENCE = 30

UVICORN = ("--log-level", "error", "--no-access-log", "--factory")
#: What runs it, its module, the module that must be installed, and its options.
SERVERS = {
    "erlang_loop.asgi": (IN_A_NODE, "erlang_loop.asgi", "", ("--factory",)),
    "uvicorn on erlang_loop": (IN_A_NODE, "uvicorn", "", ("--loop", "none", *UVICORN)),
    "uvicorn on uvloop": ("", "uvicorn", "uvloop", ("--loop", "uvloop", *UVICORN)),
    "granian": ("", "granian", "", ("--interface", "asgi", "--factory", "--log-level", "error")),
}


def command(contender: str, app: str, port: int) -> list[str]:
    runner, module, needed, options = SERVERS[contender]
    if module != "erlang_loop.asgi":
        needs(module)
    if needed:
        needs(needed)
    address = ("--port", str(port), f"bench.asgi_apps:{app}")
    return [runner or python(), "-m", module, *options, *address]


@contextlib.contextmanager
def serving(contender: str, app: str) -> Iterator[tuple[int, int]]:
    """The port, and the process whose CPU time counts."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        command(contender, app, port),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until_it_serves(server, port)
        yield port, worker_of(server.pid)
    finally:
        server.terminate()
        try:
            server.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()


def wait_until_it_serves(server: subprocess.Popen[str], port: int) -> None:
    end = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        # None of them has an event for it.
        time.sleep(0.01)
    server.kill()
    _, errors = server.communicate()
    raise Unavailable((errors.strip() or "it did not start").splitlines()[-1])


def worker_of(process: int) -> int:
    """granian's worker is a child process, a fork of the program."""
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        if b"\0granian\0" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    return process


def add(name: str, app: str, path: str, expect: str) -> None:
    def run(contender: str, budget: Budget) -> Sample:
        with serving(contender, app) as (port, process):
            return load_client.run(
                "http",
                f"tcp:127.0.0.1:{port}",
                budget,
                connections=CONNECTIONS,
                path=path,
                expect=expect,
                pid=process,
            )

    run.__doc__ = {
        "plain": f"1 KiB from a plain ASGI application, {CONNECTIONS} keep-alive connections.",
        "api": f"JSON from FastAPI, {CONNECTIONS} keep-alive connections.",
    }[app]
    case(
        name,
        group=GROUP,
        unit="requests/s",
        kind="named",
        contenders=tuple(SERVERS),
        counts=False,
    )(run)


add("asgi_plain", "plain", "/", BODY.decode())
add("asgi_fastapi", "api", "/items/7", '{"number":7}')
