"""Child processes: output, exit codes, signals, many at once, and from any thread."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE, STDOUT

import pytest
from connections import eventually


async def run(code: str, **options) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", code, **options)


@pytest.mark.parametrize("code", [0, 1, 7, 255])
async def test_exit_codes(loop, code):
    process = await asyncio.create_subprocess_shell(f"exit {code}")
    assert await process.wait() == code
    assert process.returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
async def test_ended_by_a_signal(loop, number):
    process = await asyncio.create_subprocess_exec("sleep", "3600")
    process.send_signal(number)
    assert await process.wait() == -number


async def test_communicate(loop):
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    data = os.urandom(1_000_000)
    output, errors = await process.communicate(data)
    assert (output, errors, process.returncode) == (data, None, 0)


async def test_outputs_apart_and_together(loop):
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    process = await run(code, stdout=PIPE, stderr=PIPE)
    assert await process.communicate() == (b"out\n", b"err\n")
    process = await run(code, stdout=PIPE, stderr=STDOUT)
    assert (await process.communicate())[0] == b"out\nerr\n"
    process = await run(code, stdout=DEVNULL, stderr=DEVNULL)
    assert await process.wait() == 0


async def test_environment_and_folder(loop, tmp_path):
    process = await asyncio.create_subprocess_shell(
        "echo $SPAM; pwd", stdout=PIPE, env={"SPAM": "eggs"}, cwd=tmp_path
    )
    output, _ = await process.communicate()
    assert output.decode().split() == ["eggs", str(tmp_path)]


async def test_program_that_is_not_there(loop):
    with pytest.raises(FileNotFoundError):
        await asyncio.create_subprocess_exec("/no/such/program")


async def test_conversation(loop):
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    for number in range(100):
        process.stdin.write(b"%d\n" % number)
        assert await process.stdout.readline() == b"%d\n" % number
    process.stdin.close()
    assert await process.wait() == 0
    assert await process.stdout.read() == b""


async def test_many_at_once(loop):
    """Each with its own exit code."""
    processes = await asyncio.gather(
        *(asyncio.create_subprocess_shell(f"exit {number}") for number in range(40))
    )
    assert [await process.wait() for process in processes] == list(range(40))


async def test_process_ends_before_it_is_awaited(loop):
    process = await asyncio.create_subprocess_shell("exit 3", stdout=PIPE)
    assert await process.stdout.read() == b""
    assert await process.wait() == 3
    assert await process.wait() == 3
    await eventually(lambda: process._transport._proc is None)
    with pytest.raises(ProcessLookupError):
        process.kill()


async def test_waiting_is_cancelled(loop):
    process = await asyncio.create_subprocess_exec("sleep", "3600")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), 0.01)
    process.kill()
    assert await process.wait() == -signal.SIGKILL


async def test_stdin_that_is_not_read(loop):
    """communicate() with a child that leaves early is no error."""
    process = await asyncio.create_subprocess_exec("true", stdin=PIPE)
    await process.communicate(bytes(1_000_000))
    assert process.returncode == 0


async def test_child_outlives_its_output(loop):
    """The end of the output is not the end of the process."""
    process = await run("import os, sys; os.close(1); sys.stdin.read()", stdin=PIPE, stdout=PIPE)
    assert await process.stdout.read() == b""
    assert process.returncode is None
    process.stdin.close()
    assert await process.wait() == 0


async def test_protocol(loop):
    """The protocol's callbacks: all output, then the exit, then the end."""
    events = []
    lost = loop.create_future()

    class Protocol(asyncio.SubprocessProtocol):
        def connection_made(self, transport):
            events.append("made")

        def pipe_data_received(self, fd, data):
            events.append((fd, data))

        def pipe_connection_lost(self, fd, exc):
            events.append(("closed", fd))

        def process_exited(self):
            events.append("exited")

        def connection_lost(self, exc):
            lost.set_result(exc)

    transport, _ = await loop.subprocess_exec(Protocol, "echo", "hello", stdin=DEVNULL)
    assert await lost is None
    assert events[0] == "made"
    assert (1, b"hello\n") in events
    assert {"exited", ("closed", 1), ("closed", 2)} <= set(events)
    assert transport.get_returncode() == 0
    transport.close()


async def test_closing_the_transport_kills(loop):
    transport, _ = await loop.subprocess_exec(
        asyncio.SubprocessProtocol, "sleep", "3600", stdin=None, stdout=None, stderr=None
    )
    transport.close()
    assert await transport._wait() == -signal.SIGKILL


def test_from_another_thread(loop):
    """A loop in a thread that is not the main one has children, too."""
    codes = []

    def in_thread() -> None:
        async def main() -> None:
            process = await asyncio.create_subprocess_shell("exit 9", stdout=PIPE)
            await process.communicate()
            codes.append(process.returncode)

        other = type(loop)()
        try:
            other.run_until_complete(main())
        finally:
            other.close()

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert codes == [9]


async def test_blocking_subprocess_in_a_thread(loop):
    """The plain subprocess module and os.system have right exit codes, too."""
    import subprocess

    run = subprocess.run
    assert (await asyncio.to_thread(run, ["false"], check=False)).returncode == 1
    assert os.waitstatus_to_exitcode(await asyncio.to_thread(os.system, "exit 4")) == 4


@pytest.mark.filterwarnings("ignore:.*hild.*atcher.*:DeprecationWarning")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there are no child watchers any more")
@pytest.mark.parametrize("name", ["SafeChildWatcher", "FastChildWatcher"])
def test_child_watcher_that_was_set(loop, name):
    """FastChildWatcher reaps all children: a loop that waits for them itself lost their codes."""

    async def codes() -> list[int]:
        children = [await asyncio.create_subprocess_shell(f"exit {n}") for n in range(10)]
        return [await child.wait() for child in children]

    watcher = getattr(asyncio, name)()
    watcher.attach_loop(loop)
    asyncio.set_child_watcher(watcher)
    try:
        assert loop.run_until_complete(codes()) == list(range(10))
    finally:
        asyncio.set_child_watcher(None)
        watcher.close()
