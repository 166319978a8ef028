"""Registered names of processes."""

from __future__ import annotations

from .atom import Atom
from .errors import Error
from .mailboxes import self
from .native import Pid, _call


def register(name: str, pid: Pid | None = None) -> None:
    """Register a process of this node under a name: `pid`, or the current task or thread.

    Raises ValueError if the name is taken, if the process has ended or already has a name, or if
    the atom does not exist: `erlang.Atom("my_name")` creates it.
    """
    process = self() if pid is None else pid
    try:
        _call("erlang", "register", [_atom(name), process], None, None)
    except Error as error:
        if error.reason != "badarg":
            raise
        raise ValueError(f"{process} cannot have the name {name!r}") from None


def unregister(name: str) -> None:
    """Unregister a name; raises ValueError if no process has it."""
    try:
        _call("erlang", "unregister", [_atom(name)], None, None)
    except Error as error:
        if error.reason != "badarg":
            raise
        raise ValueError(f"no process is registered as {name!r}") from None


def whereis(name: str) -> Pid | None:
    """Return the process of this node with this name, or None."""
    try:
        atom = _atom(name)
    except ValueError:
        return None
    found = _call("erlang", "whereis", [atom], None, None)
    return found if isinstance(found, Pid) else None


def _atom(name: str) -> Atom:
    return name if isinstance(name, Atom) else Atom.existing(name)
