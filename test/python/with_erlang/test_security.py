"""What docs/security.md says of fds, files and the launcher."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

import erlang_loop
import pytest
from command import ERLANG_LOOP, environment, run
from connections import Recorder, connected
from leaks import open_fds


def test_fds_are_not_inherited(short_path):
    """Of a loop, servers, connections and endpoints: none reaches a subprocess.

    (The VM's own do, those it has from its start.)
    """
    before = open_fds()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(Recorder, str(short_path / "socket"))
        endpoint, _ = await loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
        )
        async with connected():
            await asyncio.sleep(0.03)  # It has parked, so it has all the fds that a loop has.
            ours = {fd: what for fd, what in open_fds().items() if before.get(fd) != what}
            assert len(ours) > 6
            assert {fd: what for fd, what in ours.items() if os.get_inheritable(fd)} == {}
            code = "import os; print({os.readlink(f'/proc/self/fd/{fd}') for fd in range(200)"
            code += " if os.path.islink(f'/proc/self/fd/{fd}')})"
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, close_fds=False
            )
            listed, _ = await child.communicate()
            sockets = {what for what in ours.values() if what.startswith("socket:")}
            assert sockets
            assert sockets.isdisjoint(ast.literal_eval(listed.decode()))
        endpoint.close()
        server.close()
        await server.wait_closed()

    erlang_loop.run(main())


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o000])
async def test_mode_of_a_socket_file(loop, short_path, mask):
    """As the umask has it, no wider; and that of the process is as before."""
    path = short_path / "socket"
    before = os.umask(mask)
    try:
        server = await loop.create_unix_server(Recorder, str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o777 & ~mask
    finally:
        assert os.umask(before) == mask
    server.close()
    await server.wait_closed()


EVIL = [
    "$(touch evil)",
    "`touch evil`",
    "; touch evil",
    "' ; touch evil '",
    '" ; touch evil "',
    "-eval",
    'file:write_file("evil", <<>>).',
    "-s init stop",
    "{foo, [bar]}.",
    "*",
    "%PATH%",
    "\n",
]


def test_launcher_evaluates_no_argument(short_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    ended = run(ERLANG_LOOP, "-c", code, *EVIL, cwd=short_path)
    assert (ended.code, ended.out) == (0, f"{EVIL}\n")
    assert not (short_path / "evil").exists()


def test_launcher_reads_no_erlang_of_the_home_folder(short_path: Path) -> None:
    (short_path / ".erlang").write_text('file:write_file("evil", <<>>).\n')
    variables = environment(HOME=str(short_path), ERL_ZFLAGS="", ERL_AFLAGS="", ERL_FLAGS="")
    ended = run(ERLANG_LOOP, "-c", "print('ran')", cwd=short_path, env=variables)
    assert (ended.code, ended.out) == (0, "ran\n")
    assert not (short_path / "evil").exists()


def test_launcher_opens_no_port() -> None:
    code = (
        "import erlang, os\n"
        "print(erlang.call('erlang', 'is_alive', []), erlang.call('erlang', 'nodes', []))\n"
        "inodes = {os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')\n"
        "          if os.path.islink(f'/proc/self/fd/{fd}')}\n"
        "listening = [line.split() for name in ('tcp', 'tcp6')\n"
        "             for line in open(f'/proc/self/net/{name}') if ' 0A ' in line]\n"
        "print([line[1] for line in listening if f'socket:[{line[9]}]' in inodes])\n"
    )
    ended = run(ERLANG_LOOP, "-c", code)
    assert (ended.code, ended.out, ended.err) == (0, "False []\n[]\n", "")


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("import os; os._exit(3)", 3),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
    ids=["os._exit", "segfault", "kill"],
)
def test_python_code_can_end_the_node(code, ended):
    """Not a boundary: the node ends as a plain python would, with the same exit code."""
    assert run(ERLANG_LOOP, "-c", code).code == ended
