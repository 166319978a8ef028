"""The other front ends of the core, beside what programs would use without it.

Each contender is a program in bench/front_ends that prints its port and echoes.
"""

from __future__ import annotations

import shutil
import subprocess

from bench import load_client
from bench.contenders import ROOT, python
from bench.registry import Budget, Sample, Unavailable, case

GROUP = "front_ends"
NODE = "node"
IN_A_NODE = str(ROOT / "bin/erlang-loop")

#: The program, and what runs it if that is not Python itself.
PROGRAMS = {
    "epoll_callbacks": ("", "bench.front_ends.epoll_callbacks"),
    "callbacks": (IN_A_NODE, "bench.front_ends.callback_loop"),
    "epoll_generators": ("", "bench.front_ends.epoll_generators"),
    "generators": (IN_A_NODE, "bench.front_ends.generator_loop"),
    "asyncio": ("", "bench.front_ends.asyncio_protocol"),
    "erlang_loop": (IN_A_NODE, "bench.front_ends.asyncio_protocol"),
    "node": (NODE, str(ROOT / "bench/front_ends/node_echo.js")),
}


def command(contender: str) -> list[str]:
    runner, program = PROGRAMS[contender]
    if runner != NODE:
        return [runner or python(), "-m", program]
    if shutil.which(NODE) is None:
        raise Unavailable("Node is not installed")
    return [NODE, program]


def echo(contender: str, budget: Budget, connections: int) -> Sample:
    server = subprocess.Popen(
        command(contender), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        port = server.stdout.readline().strip()
        if not port:
            _, errors = server.communicate()
            raise Unavailable((errors.strip() or "it did not start").splitlines()[-1])
        address = f"tcp:127.0.0.1:{port}"
        return load_client.run(
            "echo", address, budget, connections=connections, size=1024, pid=server.pid
        )
    finally:
        server.kill()
        server.communicate()


def add_echo(connections: int) -> None:
    def run(contender: str, budget: Budget) -> Sample:
        return echo(contender, budget, connections)

    plural = "s" * (connections > 1)
    run.__doc__ = f"Echo of 1 KiB, {connections:,} connection{plural}."
    case(
        f"front_end_c{connections}",
        group=GROUP,
        unit="requests/s",
        kind="named",
        contenders=tuple(PROGRAMS),
        counts=False,
    )(run)


for number in (1, 100, 1000):
    add_echo(number)
