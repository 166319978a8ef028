"""Messages to Erlang processes."""

from __future__ import annotations

from typing import Any

from .native import Pid, Ref, _send


def send(dest: Pid | Ref | str | tuple[str, str], message: Any) -> None:
    """Send a message to a pid, an alias, a registered name or `(name, node)`.

    Raises `ValueError` if no process on this node has the name. A message to a process that has
    ended is lost, as in Erlang. Sending to another node waits until it is connected.
    """
    _send(dest, message)
