"""What py_large_data_SUITE calls: large buffers, and files that must not be mapped."""

from __future__ import annotations

import array
import fcntl
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import erlang

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

kept: list[Any] = []


def identity(value: Any) -> Any:
    return value


def keep(value: Any) -> None:
    kept.append(value)


def forget() -> None:
    kept.clear()


def ones(rows: int, columns: int) -> Any:
    import numpy as np

    return np.ones((rows, columns))


def total(view: memoryview) -> int:
    """Reads a byte of each page."""
    return sum(view[::4096])


def shared(size: int, byte: int) -> memoryview:
    view = memoryview(erlang.SharedBuffer(size))
    view[:] = bytes([byte]) * size
    return view


def written_after_it_was_sent(size: int) -> tuple[str, str]:
    """The same buffer twice: a private copy is changed in between."""
    view = shared(size, 1)
    first = erlang.call("erlang", "hd", [[view]])
    view[0] = 2
    second = erlang.call("erlang", "hd", [[view]])
    return first[:2], second[:2]


async def views(count: int, size: int) -> AsyncIterator[memoryview]:
    for number in range(count):
        yield memoryview(bytes([number]) * size)


def use_all_fds() -> int:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while True:
            kept.append(os.dup(0))
    except OSError:
        return len(kept)


def close_fds() -> None:
    for fd in kept:
        os.close(fd)
    kept.clear()


def limit_memory(more: int) -> None:
    """No mapping of more than this works any longer."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, -1))


def file_of(kind: str) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    if kind == "gaps":
        os.ftruncate(fd, 1 << 20)
    else:
        os.write(fd, b"x" * (4096 if kind == "short" else 1 << 20))
    if kind == "writable":
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    elif kind == "shrinks":
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    else:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


def send_files(name: bytes, secret: bytes, kinds: list[str]) -> socket.socket:
    """Connects as a peer does, and sends a file of each kind."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(b"\0" + name)
    peer.send(secret)
    for number, kind in enumerate(kinds):
        if kind == "no_head":
            peer.send(b"x")
            continue
        fd = os.open("/dev/null", os.O_RDONLY) if kind == "device" else file_of(kind)
        offset = 2**64 - 1 if kind == "overflow" else 0
        head = struct.pack("=QQQ", number, offset, 1 << 20)
        files = [] if kind == "none" else [fd] * (3 if kind == "many" else 1)
        peer.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
        os.close(fd)
    kept.append(peer)
    return peer
