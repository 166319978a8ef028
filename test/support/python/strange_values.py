"""Python values for py_fuzz_SUITE: deep, wide, endless, and objects whose methods do harm.

Every value crosses to Erlang and back, or is refused with an exception; nothing else may happen.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import random
import uuid
from typing import Any

import py_event_loop
from erlang import Atom, BitString, ConversionError, Handle


class PlannedError(Exception):
    """Raised by the methods below."""


class BadInt(int):
    def __abs__(self) -> int:
        raise PlannedError

    def bit_length(self) -> int:
        return 1

    def to_bytes(self, *args: Any, **kwargs: Any) -> bytes:
        return b""

    def __index__(self) -> int:
        raise PlannedError


class BadStr(str):
    def encode(self, *args: Any, **kwargs: Any) -> bytes:
        raise PlannedError

    def __hash__(self) -> int:
        raise PlannedError


class BadList(list):
    def __iter__(self) -> Any:
        raise PlannedError

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: Any) -> Any:
        raise PlannedError


class BadTuple(tuple):
    def __len__(self) -> int:
        return 1 << 62

    def __iter__(self) -> Any:
        raise PlannedError


class BadDict(dict):
    def items(self) -> Any:
        raise PlannedError

    def keys(self) -> Any:
        return [object()]

    def __len__(self) -> int:
        return 10**6


class BadSet(set):
    def __iter__(self) -> Any:
        raise PlannedError


class BadFloat(float):
    def __float__(self) -> float:
        raise PlannedError


class Liar:
    """Says it is something else."""

    @property
    def __class__(self) -> Any:
        raise PlannedError

    def __getattr__(self, name: str) -> Any:
        raise PlannedError

    def __repr__(self) -> str:
        raise PlannedError


class LyingClass(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise PlannedError

    def __repr__(cls) -> str:
        raise PlannedError


class OfLyingClass(metaclass=LyingClass):
    pass


@dataclasses.dataclass
class Fields:
    one: Any
    other: Any


@dataclasses.dataclass
class Changing:
    """A field that changes the list it is in when it is looked at."""

    home: Any

    def __getattribute__(self, name: str) -> Any:
        if name == "home":
            home = object.__getattribute__(self, "home")
            home.clear()
            home.extend([None] * random.randrange(3))
            return 1
        return object.__getattribute__(self, name)


class Odd(enum.Enum):
    NAN = float("nan")
    SELF = ("in", "itself")
    DEEP = ((((1,),),),)


class BadZone(datetime.tzinfo):
    def utcoffset(self, when: Any) -> Any:
        raise PlannedError

    def tzname(self, when: Any) -> str:
        return "bad"

    def dst(self, when: Any) -> None:
        return None


Pair = collections.namedtuple("Pair", "left right")


def leaf(rng: random.Random) -> Any:
    # Called by number, so that a seed makes the same values again.
    makers = (
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randrange(-128, 128),
        lambda: (
            rng.choice((-1, 1)) * (rng.choice((1 << 59, 1 << 63, 1 << 64)) + rng.randrange(-2, 2))
        ),
        lambda: rng.choice((-1, 1)) << rng.randrange(5000),
        lambda: 1 << (8 << 20),
        lambda: rng.choice((0.0, -0.0, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"))),
        lambda: complex(rng.random(), rng.choice((1.0, float("nan")))),
        lambda: "".join(map(chr, (rng.randrange(0x110000) for _ in range(rng.randrange(20))))),
        lambda: rng.choice(("\ud800", "\udfff text", "text\0", "", "é€🐍")),
        lambda: bytes(rng.randrange(256) for _ in range(rng.randrange(40))),
        lambda: bytearray(b"ab"),
        lambda: memoryview(b"abcdef")[:: rng.choice((1, 2, -1))],
        released,
        lambda: memoryview(bytearray(24)).cast("d"),
        lambda: Atom("ok"),
        lambda: str.__new__(Atom, "no such atom either"),
        lambda: BitString(b"\xa0", 3),
        lambda: Handle(leaf),
        lambda: rng.choice(
            (object(), leaf, int, range(3), (x for x in ()), iter([]), ..., NotImplemented)
        ),
        lambda: BadInt(rng.choice((5, 1 << 70, -(1 << 70)))),
        lambda: BadStr("bad"),
        lambda: BadList([1, 2]),
        lambda: BadTuple((1, 2)),
        lambda: BadDict(a=1),
        lambda: BadSet([1]),
        lambda: BadFloat(1.5),
        Liar,
        OfLyingClass,
        lambda: OfLyingClass,
        lambda: rng.choice(list(Odd)),
        lambda: decimal.Decimal(rng.choice(("1.5", "NaN", "-Infinity", "1e999999"))),
        lambda: uuid.UUID(int=rng.getrandbits(128)),
        lambda: datetime.datetime(2024, 1, 1, tzinfo=BadZone()),
        lambda: datetime.datetime.max,
        lambda: datetime.timedelta.min,
        lambda: datetime.time(1, fold=1),
    )
    return rng.choice(makers)()


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


def key(rng: random.Random) -> Any:
    while True:
        value = leaf(rng) if rng.random() < 0.8 else (leaf(rng), leaf(rng))
        try:
            hash(value)
        except (TypeError, PlannedError, ValueError):
            continue
        return value


def make(rng: random.Random, size: int) -> Any:
    if size <= 0:
        return leaf(rng)
    count = rng.randrange(6)
    inner = (size - 1) // max(1, count)
    makers = (
        lambda: [make(rng, inner) for _ in range(count)],
        lambda: tuple(make(rng, inner) for _ in range(count)),
        lambda: {key(rng): make(rng, inner) for _ in range(count)},
        lambda: {key(rng) for _ in range(count)},
        lambda: frozenset(key(rng) for _ in range(count)),
        lambda: collections.OrderedDict((key(rng), make(rng, inner)) for _ in range(count)),
        lambda: collections.deque(make(rng, inner) for _ in range(count)),
        lambda: Pair(make(rng, inner), make(rng, inner)),
        lambda: Fields(make(rng, inner), make(rng, inner)),
        lambda: endless(rng, [make(rng, inner)]),
        lambda: nested(rng, make(rng, inner), rng.randrange(300)),
        lambda: changing(make(rng, inner)),
        lambda: [leaf(rng)] * rng.randrange(2000),
    )
    return rng.choice(makers)() if rng.random() < 0.7 else leaf(rng)


def endless(rng: random.Random, value: list[Any]) -> Any:
    """Contains itself, at some distance."""
    inner: Any = value
    for _ in range(rng.randrange(4)):
        inner = rng.choice((lambda i: [i], lambda i: (i,), lambda i: {"k": i}))(inner)
    value.append(inner)
    return value


def nested(rng: random.Random, value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = rng.choice(
            (lambda v: [v], lambda v: (v,), lambda v: {0: v}, lambda v: Fields(v, 1))
        )(value)
    return value


def changing(value: Any) -> list[Any]:
    home: list[Any] = []
    home.extend([value, Changing(home), value, value])
    return home


def cross(seed: int, count: int) -> dict[str, int]:
    """Sends that many, and counts what crossed and what was refused."""
    rng = random.Random(seed)
    crossed = refused = 0
    for _ in range(count):
        value = make(rng, rng.randrange(40))
        try:
            py_event_loop._echo(value)
        except (ConversionError, PlannedError):
            refused += 1
        except ValueError as error:
            # Python's own reason, for a memoryview.
            if "released" not in str(error):
                raise
            refused += 1
        else:
            crossed += 1
        # What contains itself is left to the collector at once, not when it likes.
        value = None
    return {"inputs": count, "crossed": crossed, "refused": refused}
