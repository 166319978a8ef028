"""Atoms."""

from __future__ import annotations

from typing import final

from .native import _atom


@final
class Atom(str):
    """An Erlang atom: a subclass of str, with one object for each name.

    An atom equals the str, so a dict with atoms as keys can be indexed with either. `Atom(name)`
    creates the atom if it does not exist. The Erlang VM never frees atoms, so use it for names in
    a program, not for data; Python can create 100,000 in the life of a node.
    """

    __module__ = "erlang"
    __slots__ = ()

    def __new__(cls, name: str) -> Atom:
        return _atom(name, False)

    @classmethod
    def existing(cls, name: str) -> Atom:
        """Return the atom of this name; raise ValueError if it does not exist."""
        return _atom(name, True)

    def __repr__(self) -> str:
        return f"Atom({super().__repr__()})"

    def __copy__(self) -> Atom:
        return self

    def __deepcopy__(self, memo: object) -> Atom:
        return self
