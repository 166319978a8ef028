"""`python -m erlang_loop.inspect`: what a running node does, in a terminal.

The node replies at its Unix socket (`erl_src/py_inspect_socket.erl`), also while one of its threads
keeps the GIL.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

_COMMANDS = {
    "pstree": "which task awaits which",
    "ps": "a table of the tasks",
    "loops": "the loops",
    "calls": "the calls on threads",
    "streams": "the streams",
    "lints": "mistakes, with their lines",
    "node": "the node",
    "metrics": "all numbers, as Prometheus reads them",
}
#: A node whose Python is stuck replies within this time, too.
_PATIENCE = 30.0


class AttachError(Exception):
    """There is no node to attach to, or it refuses."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        path = Path(options.socket) if options.socket else _chosen(options.pid)
        print(ask(path, " ".join([options.command, *options.loop])), end="")
    except (AttachError, OSError) as error:
        print(f"erlang_loop.inspect: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    lines = [f"  {name:<10}{what}" for name, what in _COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m erlang_loop.inspect",
        description="Shows what a running node does. The node needs {inspect_socket, true} or "
        "ERLANG_LOOP_INSPECT=1.",
        epilog="\n".join(["commands:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", choices=_COMMANDS, default="pstree")
    parser.add_argument("loop", nargs="*", help="of ps and pstree: the number or name of one loop")
    parser.add_argument("--pid", type=int, help="the process, if several nodes can be inspected")
    parser.add_argument("--socket", help="the path of its socket")
    return parser


def ask(path: Path, command: str) -> str:
    """What the node at this socket replies."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(str(path))
        except ConnectionRefusedError:
            raise AttachError(f"{path}: no process listens there") from None
        connection.sendall(command.encode() + b"\n")
        with connection.makefile("rb") as reply:
            status, text = reply.readline(), reply.read().decode(errors="replace")
    if status == b"ok\n":
        return text
    raise AttachError(text.strip() or f"{path}: the node did not reply")


def _chosen(pid: int | None) -> Path:
    folder = _folder()
    if pid is not None:
        path = folder / f"{pid}.sock"
        if not path.exists():
            raise AttachError(f"process {pid} has no socket in {folder}")
        return path
    found = [path for path in sorted(folder.glob("*.sock")) if _is_other(path)]
    if not found:
        raise AttachError(f"no node has a socket in {folder}: see docs/inside.md")
    if len(found) > 1:
        numbers = ", ".join(path.stem for path in found)
        raise AttachError(f"several nodes can be inspected, choose one with --pid: {numbers}")
    return found[0]


def _folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "erlang_loop") if runtime else Path(f"/tmp/erlang_loop-{os.getuid()}")


def _is_other(path: Path) -> bool:
    """Whether another process listens there. One that was killed has left its socket behind."""
    if path.stem == str(os.getpid()):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return False
    return True
