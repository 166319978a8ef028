"""ASGI servers: ours, uvicorn on this loop and on uvloop, granian, hypercorn.

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
from bench.asgi_apps import BODY, LARGE
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
    "hypercorn": ("", "hypercorn", "uvloop", ("--worker-class", "uvloop", "--workers", "0")),
    "granian": ("", "granian", "", ("--interface", "asgi", "--factory", "--log-level", "error")),
}


def command(contender: str, app: str, port: int) -> list[str]:
    runner, module, needed, options = SERVERS[contender]
    if module != "erlang_loop.asgi":
        needs(module)
    if needed:
        needs(needed)
    address = ("--port", str(port), f"bench.asgi_apps:{app}")
    if module == "hypercorn":
        address = ("--bind", f"127.0.0.1:{port}", f"bench.asgi_apps:{app}()")
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


def add(name: str, what: str, app: str, mode: str = "http", **options: object) -> None:
    """A case; `options` are those of the client."""

    def run(contender: str, budget: Budget) -> Sample:
        with serving(contender, app) as (port, process):
            return load_client.run(
                mode,
                f"tcp:127.0.0.1:{port}",
                budget,
                pid=process,
                **{"connections": CONNECTIONS, **options},
            )

    run.__doc__ = what
    case(
        name,
        group=GROUP,
        unit="requests/s" if mode == "http" else "messages/s",
        kind="named",
        contenders=tuple(SERVERS),
        counts=False,
    )(run)


KEPT = f"{CONNECTIONS} keep-alive connections."
SMALL = BODY.decode()
add("asgi_plain", f"1 KiB from a plain ASGI application, {KEPT}", "plain", expect=SMALL)
add("asgi_large", f"10 KiB, {KEPT}", "large", expect=LARGE.decode())
add("asgi_wait", "1 KiB after 10 ms, 512 connections.", "waits", expect=SMALL, connections=512)
add("asgi_post", f"Echo of a POST of 1 KiB, {KEPT}", "echo", body=SMALL, expect=SMALL)
add(
    "asgi_websocket", f"Echo of 128 bytes, {CONNECTIONS} WebSockets.", "echo", "websocket", size=128
)
add(
    "asgi_fastapi",
    f"JSON from FastAPI, {KEPT}",
    "api",
    path="/items/7",
    expect='{"number":7}',
)


@case(
    "asgi_idle",
    group=GROUP,
    unit="KiB",
    kind="named",
    contenders=tuple(SERVERS),
    less_is_better=True,
    counts=False,
)
def idle(contender: str, budget: Budget) -> Sample:
    """KiB of memory of an idle keep-alive connection that has had one response."""
    count = budget.count(2000)
    request = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"
    with serving(contender, "plain") as (port, process), contextlib.ExitStack() as stack:

        def connect() -> None:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(request)
            got = b""
            while not got.endswith(BODY):
                got += connection.recv(65536)

        # What the first ones load and allocate stays.
        for _ in range(50):
            connect()
        before = memory_of(process)
        for _ in range(count):
            connect()
        return Sample((memory_of(process) - before) / count / 1024)


def memory_of(process: int) -> int:
    """Bytes that the process has for itself."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise Unavailable("the kernel does not say")
