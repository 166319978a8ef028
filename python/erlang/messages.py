"""Messages to Erlang processes."""

from __future__ import annotations

from typing import Any

from .native import Pid, Ref, _send


def send(dest: Pid | Ref | str | tuple[str, str], message: Any) -> None:
    """Send a message to a pid, an alias, a registered name or `(name, node)`.

    `ValueError` if there is no process of this name on this node. What is sent to a process that
    has ended is lost, as in Erlang. To another node this waits until that is connected.
    """
    _send(dest, message)
