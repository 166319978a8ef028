"""Child processes of a CallbackLoop: each has a pidfd, which becomes readable when it has ended."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import CallbackLoop

Callback = Callable[["subprocess.Popen[Any]"], object]


def watch(loop: CallbackLoop, process: subprocess.Popen[Any], callback: Callback) -> None:
    if process.poll() is not None:
        loop.call_soon(callback, process)
        return
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        # Not on this system, or not allowed in this container: a thread waits.
        loop.run_in_pool(process.wait, callback=lambda _code: callback(process))
        return
    loop.add_reader(pidfd, partial(_ended, loop, process, callback), oneshot=True)
    loop.at_shutdown(_forget, loop, pidfd)


def _ended(
    loop: CallbackLoop, process: subprocess.Popen[Any], callback: Callback, pidfd: int
) -> None:
    _forget(loop, pidfd)
    loop._endings.remove(_forget, loop, pidfd)
    process.wait()  # The process has ended: this only fetches its exit code.
    callback(process)


def _forget(loop: CallbackLoop, pidfd: int) -> None:
    loop.remove_fd(pidfd)
    os.close(pidfd)
