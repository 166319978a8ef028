"""Does every native class show the garbage collector all the Python objects that it holds?

Reads the Rust sources: a field whose type has a `Py<...>` in it, also through other types of ours,
must appear in the function that visits it: `__traverse__` of a class, `traverse` of any other type.
One that does not hides a cycle from the collector, which then leaks.

A cycle is closed by a field that changes after its object was created. Those must appear in
`__clear__`: otherwise the collector finds the cycle and cannot break it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from command import ROOT

SOURCES = ROOT / "native" / "py_nif" / "src"

#: Field: why it is not visited.
EXEMPT = {
    "DatagramTransport.peers": "tuples of str and int",
    "PyMailbox.mailbox": "shared with Erlang",
    "PyChannel.channel": "shared with Erlang",
    "ChannelWaiter.task": "shared with Erlang; its future is visited",
    "PyQuestion.0": "shared with Erlang; `waiting` is what it visits",
    "ObjectHandle.0": "shared with Erlang",
}

#: Field that changes: why `__clear__` need not empty it.
NOT_CLEARED = {
    "Loop.kind": "through `served()`",
    "Transport.file": "a socket or a file: the collector clears that itself",
    "Transport.info": "a dict and a socket: the collector clears them itself",
}

HEAD = re.compile(
    r"((?:^[ \t]*#\[[^\n]*\n|^[ \t]*//[^\n]*\n)*)"
    r"^[ \t]*(?:pub(?:\([a-z]+\))? )?(struct|enum|type) (\$?\w+)(?:<[^>{(]*>)?\s*([{(=;])",
    re.MULTILINE,
)
WORD = re.compile(r"\b[A-Z]\w*\b")


@dataclass
class Type:
    name: str
    path: Path
    is_class: bool
    is_enum: bool
    #: The types of its fields by name; those of an enum's variants, by variant.
    fields: dict[str, str] = field(default_factory=dict)


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    pairs = {"{": "}", "(": ")"}
    opening = text[start]
    depth = 0
    for place in range(start, len(text)):
        if text[place] == opening:
            depth += 1
        elif text[place] == pairs[opening]:
            depth -= 1
            if depth == 0:
                return place
    raise ValueError(f"unbalanced: {text[start : start + 60]!r}")


def split(text: str) -> list[str]:
    """At the commas outside of all brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<({[") - (character in ">)}]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|#\[[^\n]*\]", "", text)


def fields(kind: str, opening: str, body: str) -> dict[str, str]:
    found = {}
    for index, text in enumerate(split(without_comments(body))):
        part = re.sub(r"^(?:\$\()?pub(?:\([a-z]+\))? ", "", text)
        if kind == "enum":
            name = re.match(r"\w+", part)
            assert name is not None, part
            found[name[0]] = part[name.end() :]
        elif opening == "(":
            found[str(index)] = part
        else:
            name_of, _, type_of = part.partition(":")
            found[name_of.strip()] = type_of
    return found


def read_types() -> list[Type]:
    types = []
    for path in sorted(SOURCES.rglob("*.rs")):
        text = path.read_text().replace("->", "  ")
        for head in HEAD.finditer(text):
            attributes, kind, name, opening = head.groups()
            made = Type(name, path, "#[pyclass" in attributes, kind == "enum")
            start = head.end() - 1
            if opening == "=":
                made.fields["="] = text[start + 1 : text.index(";", start)]
            elif opening != ";":
                made.fields = fields(kind, opening, text[start + 1 : closing(text, start)])
            types.append(made)
    return types


TYPES = read_types()
BY_PLACE = {(one.name, one.path): one for one in TYPES}
BY_NAME: dict[str, list[Path]] = {}
for known_type in TYPES:
    BY_NAME.setdefault(known_type.name, []).append(known_type.path)


def holds(type_of: str, near: Path, known: set[tuple[str, Path]]) -> bool:
    """Whether a value of this type keeps Python objects alive. `known`: types that do."""
    if "fn(" in type_of or "'static" in type_of:
        return False
    type_of = re.sub(r"\b(?:Weak|PhantomData|PyOnceLock)<[^<>]*(?:<[^<>]*>)?[^<>]*>", "", type_of)
    if "Py<" in type_of:
        return True
    return any(resolve(word, near) & known for word in WORD.findall(type_of))


def resolve(word: str, near: Path) -> set[tuple[str, Path]]:
    """The type of ours that a name means in this file, if any."""
    if (word, near) in BY_PLACE:
        return {(word, near)}
    module, name = imports(near).get(word, ("", ""))
    return {(name, path) for path in BY_NAME.get(name, ()) if module in (path.stem, *path.parts)}


@cache
def imports(path: Path) -> dict[str, tuple[str, str]]:
    """What a file imports: the last module of the path and the name there, by the name here."""
    found = {}
    for statement in re.findall(r"^(?:pub )?use ([^;]+);", path.read_text(), re.MULTILINE):
        for one in flatten(re.sub(r"\s+", " ", statement)):
            place, _, alias = one.partition(" as ")
            *modules, name = place.split("::")
            outer = [module for module in modules if module not in ("super", "self", "crate")]
            found[alias or name] = (outer[-1] if outer else path.parent.name, name)
    return found


def flatten(statement: str) -> list[str]:
    """`a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`."""
    prefix, brace, rest = statement.strip().partition("{")
    if not brace:
        return [prefix.strip()]
    inner = rest[: rest.rindex("}")]
    return [prefix.strip() + one for part in split(inner) for one in flatten(part)]


def holders() -> set[tuple[str, Path]]:
    """All types that keep Python objects alive."""
    known: set[tuple[str, Path]] = set()
    while True:
        more = {
            (one.name, one.path)
            for one in TYPES
            if any(holds(type_of, one.path, known) for type_of in one.fields.values())
        }
        if more <= known:
            return known
        known |= more


KNOWN = holders()


def held(one: Type) -> list[str]:
    return [name for name, type_of in one.fields.items() if holds(type_of, one.path, KNOWN)]


def changing(one: Type, outer: tuple[Type, ...] = ()) -> list[str]:
    """The fields that may hold other Python objects later than at first."""
    names = [name for name in held(one) if f"{one.name}.{name}" not in EXEMPT]
    return [name for name in names if changes(one.fields[name], one.path, (*outer, one))]


def changes(type_of: str, near: Path, outer: tuple[Type, ...]) -> bool:
    cell = re.search(r"\b(?:GilSlot|GilCell|Mutex)<(.*)>", type_of, re.DOTALL)
    if cell is not None and holds(cell[1], near, KNOWN):
        return True
    keys = {key for word in WORD.findall(type_of) for key in resolve(word, near) & KNOWN}
    parts_of = [BY_PLACE[key] for key in keys]
    return any(changing(one, outer) for one in parts_of if not one.is_class and one not in outer)


def visiting(one: Type) -> str | None:
    """The body of the function that shows the collector what it holds."""
    return method(one, "__traverse__" if one.is_class else "traverse")


def method(one: Type, name: str) -> str | None:
    """Its body."""
    text = one.path.read_text()
    for implementation in re.finditer(rf"^\s*impl {one.name} \{{", text, re.MULTILINE):
        start = implementation.end() - 1
        body = text[start : closing(text, start)]
        function = re.search(rf"fn {name}\b[^{{]*", body)
        if function is not None:
            opened = function.end()
            return body[opened : closing(body, opened)]
    return None


def missing(one: Type) -> list[str]:
    body = visiting(one)
    names = [name for name in held(one) if f"{one.name}.{name}" not in EXEMPT]
    if body is None:
        return names
    return [name for name in names if not is_named(one, name, body)]


def is_named(one: Type, name: str, body: str) -> bool:
    pattern = rf"::{name}\b" if one.is_enum else rf"\bself\s*\.{re.escape(name)}(?!\w)"
    return re.search(pattern, body) is not None


CLASSES = [one for one in TYPES if one.is_class]
WITH_OBJECTS = [one for one in CLASSES if held(one)]


def below(one: Type, seen: dict[tuple[str, Path], Type]) -> dict[tuple[str, Path], Type]:
    """The other types of ours through which a class holds objects, and must visit them."""
    for name in held(one):
        if f"{one.name}.{name}" in EXEMPT:
            continue
        for word in WORD.findall(one.fields[name]):
            for key in resolve(word, one.path) & KNOWN:
                if key not in seen and not BY_PLACE[key].is_class:
                    seen[key] = BY_PLACE[key]
                    below(BY_PLACE[key], seen)
    return seen


def parts() -> list[Type]:
    seen: dict[tuple[str, Path], Type] = {}
    for one in WITH_OBJECTS:
        below(one, seen)
    return [one for one in seen.values() if "=" not in one.fields]


@pytest.mark.parametrize("one", WITH_OBJECTS, ids=lambda one: one.name)
def test_classes(one):
    assert missing(one) == []


@pytest.mark.parametrize("one", WITH_OBJECTS, ids=lambda one: one.name)
def test_what_changes_is_cleared(one):
    names = [name for name in changing(one) if f"{one.name}.{name}" not in NOT_CLEARED]
    body = method(one, "__clear__") or ""
    assert [name for name in names if not is_named(one, name, body)] == []


@pytest.mark.parametrize("one", parts(), ids=lambda one: one.name)
def test_what_classes_are_made_of(one):
    assert missing(one) == []


def test_that_the_sources_were_understood():
    text = "".join(path.read_text() for path in SOURCES.rglob("*.rs"))
    assert len(CLASSES) == len(re.findall(r"^\s*#\[pyclass\(", text, re.MULTILINE))
    assert {"Loop", "Handle", "Acceptor", "Transport", "SockOperation"} <= {
        one.name for one in WITH_OBJECTS
    }
    assert {"Call", "Arguments", "Watched", "Watcher", "Item"} <= {one.name for one in parts()}


def test_that_every_exemption_is_needed():
    names = {f"{one.name}.{name}" for one in TYPES for name in held(one)}
    assert set(EXEMPT) <= names
    changing_names = {f"{one.name}.{name}" for one in TYPES for name in changing(one)}
    assert set(NOT_CLEARED) <= changing_names
