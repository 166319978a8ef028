"""A server that runs out of file descriptors: does it wait, and does it recover?"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import subprocess
from asyncio import constants

import pytest
from connections import echo, eventually


@pytest.fixture
def short_of_fds():
    """The process may open no more: the limit is what is in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit() -> None:
        highest = os.dup(0)
        os.close(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.ours
async def test_backs_off_and_recovers(loop, unhandled, short_of_fds, monkeypatch):
    """asyncio's own tries as often as its backlog is long, and again after the server is closed."""
    monkeypatch.setattr(constants, "ACCEPT_RETRY_DELAY", 0.05)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = socket.socket()
    client.setblocking(False)
    short_of_fds()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await eventually(lambda: unhandled)
    before = os.times()
    await asyncio.sleep(0.3)  # Time to spin in.
    after = os.times()
    assert after.user + after.system - before.user - before.system < 0.2
    assert {context["exception"].errno for context in unhandled} == {errno.EMFILE}
    assert "accept() out of system resource" in unhandled[0]["message"]
    assert len(unhandled) < 20

    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await loop.sock_sendall(client, b"still there?")
    assert await loop.sock_recv(client, 100) == b"still there?"
    client.close()
    unhandled.clear()
    server.close()
    await server.wait_closed()


@pytest.mark.ours
async def test_server_closed_meanwhile(loop, unhandled, short_of_fds, monkeypatch):
    """The retry finds nothing to do. (asyncio's own then watches fd -1: ValueError.)"""
    monkeypatch.setattr(constants, "ACCEPT_RETRY_DELAY", 0.02)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with socket.socket() as client:
        client.setblocking(False)
        short_of_fds()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await eventually(lambda: unhandled)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.04)
    assert {type(context["exception"]) for context in unhandled} <= {OSError}
    unhandled.clear()


async def test_client_out_of_fds(loop, short_of_fds):
    short_of_fds()
    with pytest.raises(OSError) as caught:
        await asyncio.open_connection("127.0.0.1", 1)
    assert caught.value.errno == errno.EMFILE


async def test_sleeps_end_without_fds(loop, short_of_fds):
    """A loop that could not make the timerfd it wanted to park with slept forever."""
    short_of_fds()
    for milliseconds in range(18, 28):
        await asyncio.sleep(milliseconds / 1000)


@pytest.mark.ours
def test_no_fd_for_a_new_loop(loop, short_of_fds):
    """It needs none to run and to sleep; to watch one is an error, after which it goes on."""

    async def sleep_and_watch() -> None:
        await asyncio.sleep(0.02)
        with pytest.raises(OSError) as caught:
            asyncio.get_running_loop().add_reader(0, print)
        assert caught.value.errno == errno.EMFILE
        await asyncio.sleep(0.02)

    short_of_fds()
    other = type(loop)()
    other.run_until_complete(sleep_and_watch())
    other.close()


def test_child_of_a_loop_without_fds(loop):
    """Two fds are enough to start a child. They were not enough to watch it, by a pidfd and with
    what a loop needs for its first fd: the program got an OSError, and the child had no owner."""

    async def exit_code() -> int:
        process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
        return await process.wait()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # What starting one imports takes fds, too.
    subprocess.run(["true"], check=True)
    taken = [os.dup(0)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 20, hard))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        os.close(taken.pop())
        os.close(taken.pop())
        assert loop.run_until_complete(exit_code()) == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)
