"""Child processes of a loop: each is watched by a pidfd among the loop's other fds.

No signals or threads are needed, and a loop in any thread can start children. If the system has no
pidfds, a thread waits for each child. asyncio's child watcher (removed in Python 3.14) is used only
if the program has set one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from asyncio import unix_events
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .event_loop import ErlangEventLoop


class Children:
    """The children that a loop waits for."""

    def __init__(self) -> None:
        # The transport and its pidfd.
        self._watched: dict[Any, int] = {}

    async def start(self, loop: ErlangEventLoop, *args: Any, **kwargs: Any) -> Any:
        """Like `_make_subprocess_transport` of asyncio's loop, without the child watcher."""
        waiter = loop.create_future()
        make = unix_events._UnixSubprocessTransport  # type: ignore[attr-defined]
        transport = make(loop, *args, waiter=waiter, **kwargs)
        self._watch(loop, transport)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport

    def close(self) -> None:
        """The loop is closing: stop watching children that still run."""
        while self._watched:
            _, pidfd = self._watched.popitem()
            os.close(pidfd)

    def _watch(self, loop: ErlangEventLoop, transport: Any) -> None:
        pid = transport.get_pid()
        try:
            self._watch_pidfd(loop, transport, os.pidfd_open(pid))
        except (AttributeError, OSError):
            # Not supported by this system, not allowed in this container, or no fd is left.
            name = f"asyncio-waitpid-{pid}"
            arguments = (loop, transport)
            threading.Thread(target=_wait, args=arguments, name=name, daemon=True).start()

    def _watch_pidfd(self, loop: ErlangEventLoop, transport: Any, pidfd: int) -> None:
        try:
            loop._add_reader(pidfd, self._exited, loop, transport)
        except BaseException:
            os.close(pidfd)
            raise
        self._watched[transport] = pidfd

    def _exited(self, loop: ErlangEventLoop, transport: Any) -> None:
        pidfd = self._watched.pop(transport)
        loop._remove_reader(pidfd)
        os.close(pidfd)
        _report(loop, transport)


def _wait(loop: ErlangEventLoop, transport: Any) -> None:
    """Runs in the thread of a child. Passes the exit to the loop's thread."""
    pid = transport.get_pid()
    # Other code may have waited for the child: `_exit_code` handles that.
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        loop.call_soon_threadsafe(_report, loop, transport)
    except RuntimeError:
        logger.warning("Loop %r that handles pid %r is closed", loop, pid)
        _exit_code(transport._proc)


def _report(loop: ErlangEventLoop, transport: Any) -> None:
    process = transport._proc
    loop._child_watcher_callback(process.pid, _exit_code(process), transport)


def _exit_code(process: subprocess.Popen[Any]) -> int:
    # Already known if the transport was closed or sent a signal after the child ended: Popen
    # fetches the exit code then.
    if process.returncode is not None:
        return process.returncode
    try:
        _, status = os.waitpid(process.pid, 0)
    except ChildProcessError:
        text = "child process pid %d exit status already read:  will report returncode 255"
        logger.warning(text, process.pid)
        return 255
    return os.waitstatus_to_exitcode(status)
