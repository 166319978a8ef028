"""Child processes of a loop: each is watched by a pidfd among the loop's other fds.

So no signal and no thread is needed, and a loop in any thread can start children. Where the
system has no pidfds, a thread waits for each child. A child watcher of asyncio (gone in Python
3.14) is asked only if the program has set one.
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
    from .loop import ErlangEventLoop


class Children:
    """The children that a loop waits for."""

    def __init__(self) -> None:
        # The transport and its pidfd.
        self._watched: dict[Any, int] = {}

    async def start(self, loop: ErlangEventLoop, *args: Any, **kwargs: Any) -> Any:
        """What `_make_subprocess_transport` of asyncio's loop does, without its child watcher."""
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
        """The loop closes: children that still run are no longer watched."""
        while self._watched:
            _, pidfd = self._watched.popitem()
            os.close(pidfd)

    def _watch(self, loop: ErlangEventLoop, transport: Any) -> None:
        pid = transport.get_pid()
        try:
            self._watch_pidfd(loop, transport, os.pidfd_open(pid))
        except (AttributeError, OSError):
            # Not on this system, not allowed in this container, or no fd is left for it.
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
    """The thread of a child. It leaves the exit code to the loop's thread if there is one."""
    pid = transport.get_pid()
    # Somebody else may have waited for it: `_exit_code` looks what is known then.
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
    # Known already if the transport was closed or sent a signal after the child ended: Popen
    # asks for the code then.
    if process.returncode is not None:
        return process.returncode
    try:
        _, status = os.waitpid(process.pid, 0)
    except ChildProcessError:
        text = "child process pid %d exit status already read:  will report returncode 255"
        logger.warning(text, process.pid)
        return 255
    return os.waitstatus_to_exitcode(status)
