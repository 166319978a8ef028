"""Atoms."""

from __future__ import annotations

from typing import final

from .native import _atom


@final
class Atom(str):
    """An Erlang atom: a str of its own type, and one object for each name.

    Equal to the str, so that a map with atoms as keys is a dict that takes either. `Atom(name)`
    makes the atom if there is none of this name. The Erlang VM never forgets one, so that is for
    names in a program, not for data; Python can make 100,000 in the life of a node.
    """

    __module__ = "erlang"
    __slots__ = ()

    def __new__(cls, name: str) -> Atom:
        return _atom(name, False)

    @classmethod
    def existing(cls, name: str) -> Atom:
        """The atom of this name, if there is one; ValueError if not."""
        return _atom(name, True)

    def __repr__(self) -> str:
        return f"Atom({super().__repr__()})"

    def __copy__(self) -> Atom:
        return self

    def __deepcopy__(self, memo: object) -> Atom:
        return self
