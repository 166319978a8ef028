"""Is a Python value the same after a visit to Erlang? docs/values.md says what changes."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import datetime
import enum
import gc
import io
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import erlang
import pydantic
import pytest
from command import ERLANG_LOOP, run
from erlang import Atom, BitString, ConversionError, Handle
from erlang_loop._native import _echo
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
atoms = st.sampled_from(["ok", "error", "", "with space", "ζ", "Ünïcode"]).map(Atom)
bit_strings = st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 7)).map(
    lambda parts: BitString(parts[0], len(parts[0]) * 8 - parts[1])
)

keys = st.recursive(
    st.none() | st.integers() | text | bit_strings | atoms,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
same_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**600), 2**600)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
    | atoms
    | bit_strings,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(keys, inner, max_size=5)
    ),
    max_leaves=30,
)


def exactly(value: Any) -> Any:
    """Tells 1 from True and 1.0, 0.0 from -0.0, Atom from str."""
    if isinstance(value, dict):
        return {(type(key), key): exactly(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return type(value), [exactly(item) for item in value]
    return type(value), repr(value)


@settings(max_examples=500, deadline=None)
@given(same_values)
def test_these_come_back_the_same(value: Any) -> None:
    assert exactly(_echo(value)) == exactly(value)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100), st.sampled_from([bytes, bytearray, memoryview]))
def test_bytes_come_back_as_text_or_not_at_all(data: bytes, kind: Callable[[bytes], Any]) -> None:
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(ConversionError, match="must be UTF-8"):
            _echo(kind(data))
    else:
        assert _echo(kind(data)) == expected
    assert _echo((Atom("bytes"), kind(data))) == data


# In a zone of whole seconds, as Erlang gets them.
zones = st.integers(-86_399, 86_399).map(
    lambda seconds: datetime.timezone(datetime.timedelta(seconds=seconds))
)
hashable_tagged = (
    st.datetimes(timezones=st.none() | st.just(datetime.UTC) | zones)
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.fractions()
    | st.complex_numbers(allow_nan=False, allow_infinity=False)
)
members = st.recursive(
    hashable_tagged | st.none() | text | bit_strings,
    lambda inner: st.frozensets(inner, max_size=4) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)
tagged_values = st.recursive(
    members,
    lambda inner: (
        st.sets(members, max_size=4)
        | st.lists(inner, max_size=4)
        | st.dictionaries(members, inner, max_size=4)
    ),
    max_leaves=15,
)


@settings(max_examples=500, deadline=None)
@given(tagged_values)
def test_what_goes_out_tagged_comes_in_again(value: Any) -> None:
    back = _echo(value)
    assert type(back) is type(value)
    assert back == value
    # And out and in once more.
    assert _echo([back]) == [value]


arrays = numpy_strategies.arrays(
    numpy_strategies.boolean_dtypes()
    | numpy_strategies.integer_dtypes(endianness="?")
    | numpy_strategies.floating_dtypes(endianness="?")
    | numpy_strategies.complex_number_dtypes(endianness="?")
    | numpy_strategies.datetime64_dtypes(endianness="?")
    | numpy_strategies.byte_string_dtypes(max_len=5)
    | numpy_strategies.unicode_string_dtypes(max_len=5, endianness="?"),
    numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@settings(max_examples=300, deadline=None)
@given(arrays, st.booleans())
def test_arrays_come_in_again(value: Any, transposed: bool) -> None:
    value = value.T if transposed else value
    back = _echo({"array": value})["array"]
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert back.tobytes() == value.tobytes()
    assert not back.flags.writeable
    assert _echo(back).tobytes() == value.tobytes()


class NotATime(datetime.datetime):
    """As pandas' NaT: a datetime that does not equal itself."""

    def __ne__(self, other: object) -> bool:
        return True


def test_a_datetime_that_is_no_time() -> None:
    with pytest.raises(ConversionError, match=r"value\[1\]: Erlang has no value for .*NotATime"):
        _echo([1, NotATime(1, 1, 1)])


def test_an_array_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    value = [(Atom("ndarray"), "u1", (2,), "ab")]
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ConversionError, match=r"value\[0\]: an array needs numpy"):
        _echo(value)


@pytest.mark.parametrize("size", [0, 1, 64, 65, 100_000])
def test_a_view_is_the_memory_of_the_binary(size: int) -> None:
    data = bytes(index % 256 for index in range(size))
    view = _echo((Atom("view"), data))
    assert isinstance(view, memoryview)
    assert (view.readonly, view.nbytes, bytes(view)) == (True, size, data)
    with pytest.raises(TypeError, match="read-only"):
        view[:0] = b""
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(b"abc").readinto(view)
    # A part outlives the rest, on any thread.
    part = view[size // 2 :]
    del view
    gc.collect()
    last = threading.Thread(target=lambda kept: kept.release(), args=(memoryview(part),))
    last.start()
    last.join()
    assert bytes(part) == data[size // 2 :]


class Route(pydantic.BaseModel):
    path: pathlib.PurePosixPath
    methods: set[str] = {"GET"}


def test_models_of_pydantic() -> None:
    class Model(pydantic.BaseModel):
        name: str
        routes: list[Route] = []
        when: datetime.date | None = None

    model = Model(name="a", routes=[Route(path=pathlib.PurePosixPath("/x"))])
    expected = {"name": "a", "routes": [{"path": "/x", "methods": {"GET"}}], "when": None}
    assert _echo(model) == expected
    assert _echo([Model(name="b", when=datetime.date(2024, 1, 1))])[0]["when"].year == 2024
    with pytest.raises(ConversionError, match="cannot send <class"):
        _echo(Model)


def test_wrappers_and_views() -> None:
    assert _echo(collections.deque([1, (2,)], maxlen=2)) == [1, (2,)]
    assert _echo(array.array("w" if sys.version_info >= (3, 13) else "u", "text")) == "text"
    assert _echo(os.environ.copy().items()) == list(os.environ.items())
    assert _echo(pathlib.Path("a") / "b") == "a/b"
    with pytest.raises(ConversionError, match="lone surrogates"):
        _echo([pathlib.Path(os.fsdecode(b"\xff"))])
    for length in (30_000_001, 2**80):
        with pytest.raises(ConversionError, match=r'value\["x"\]: more than 30,000,000'):
            _echo({"x": range(length)})
    endless: Any = collections.UserList()
    endless.data = endless
    with pytest.raises(ConversionError, match=r"cannot send <class 'collections\.UserList'>"):
        _echo(endless)


def test_a_deque_that_cannot_be_iterated_is_that_exception() -> None:
    class Odd(collections.deque):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise LookupError

    with pytest.raises(LookupError):
        _echo([Odd()])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20))
def test_any_text_crosses_or_is_refused(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        with pytest.raises(ConversionError, match="lone surrogates"):
            _echo(value)
    else:
        assert _echo(value) == value


@pytest.mark.parametrize("size", [65_535, 65_536, 1_000_000])
@pytest.mark.parametrize("letter", ["a", "é", "ζ", "🐍"])
def test_large_text(size: int, letter: str) -> None:
    value = letter * size
    assert _echo(value) == value
    assert _echo(value.encode()) == value


class Base(enum.Enum):
    pass


class Inner(enum.Enum):
    VALUE = 3


class Outer(enum.Enum):
    VALUE = Inner.VALUE


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Mixed(str, enum.Enum):  # noqa: UP042 - not a StrEnum: its str() differs
    A = "text"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(Inner.VALUE, 3), (Outer.VALUE, 3), (Flags.A | Flags.B, 3), (Mixed.A, "text")],
)
def test_enums_are_their_values(value: enum.Enum, expected: Any) -> None:
    assert _echo(value) == expected


def test_enums_that_never_end_are_refused() -> None:
    class One(enum.Enum):
        VALUE = 1

    class Two(enum.Enum):
        VALUE = 1

    One.VALUE._value_ = Two.VALUE
    Two.VALUE._value_ = One.VALUE
    with pytest.raises(ConversionError, match="cannot send"):
        _echo(One.VALUE)


def test_a_dataclass_that_is_a_dict_is_its_fields() -> None:
    @dataclasses.dataclass
    class Odd(dict):  # type: ignore[type-arg]
        x: int = 1

    assert _echo(Odd()) == {"x": 1}


def test_an_exception_on_the_way_is_that_exception() -> None:
    class Zone(datetime.tzinfo):
        def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
            raise LookupError("no such zone")

    with pytest.raises(LookupError) as caught:
        _echo({"when": [datetime.datetime(2024, 1, 1, tzinfo=Zone())]})
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == ['while value["when"][0] was sent to Erlang']


def test_a_list_that_changes_meanwhile_is_taken_as_it_is_then() -> None:
    class Zone(datetime.tzinfo):
        def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
            values.clear()
            table.clear()
            return datetime.timedelta(0)

    moment = datetime.datetime(2024, 1, 1, tzinfo=Zone())
    table: dict[str, Any] = {"a": moment, "b": 2}
    values: list[Any] = [1, moment, 2, 3]
    assert len(_echo(values)) == 2
    table = {"a": moment, "b": 2}
    assert set(_echo(table)) == {"a", "b"}


def test_a_set_that_cannot_be_iterated_is_that_exception() -> None:
    class Odd(set):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise LookupError

    with pytest.raises(LookupError):
        _echo([Odd()])


def test_shared_parts_are_limited() -> None:
    value: list[Any] = [0]
    for _ in range(40):
        value = [value, value]
    with pytest.raises(ConversionError, match="30,000,000"):
        _echo(value)


def test_the_error_says_where() -> None:
    with pytest.raises(ConversionError) as caught:
        _echo({"a": [(1, {2: object()})]})
    assert caught.value.path == 'value["a"][0][1][2]'
    assert caught.value.problem.startswith("cannot send <class 'object'>")
    assert copy.copy(caught.value).path == caught.value.path


def test_handles() -> None:
    thing = object()
    handle = Handle(thing)
    assert handle.value is thing
    assert _echo(handle) is thing
    assert _echo([handle, {"x": (handle,)}]) == [thing, {"x": (thing,)}]
    assert repr(Handle("x")) == "Handle('x')"


def test_bit_strings() -> None:
    value = BitString(b"\xff\xff", 11)
    assert (value.data, value.bits, len(value)) == (b"\xff\xe0", 11, 11)
    assert value == BitString(b"\xff\xe0\x00", 11)
    assert hash(value) == hash(BitString(b"\xff\xe0", 11))
    assert value != BitString(b"\xff\xe0", 12)
    assert copy.deepcopy(value) == value
    assert repr(value) == r"BitString(b'\xff\xe0', 11)"
    # Whole bytes are a binary.
    assert _echo(BitString(b"ab", 16)) == "ab"
    assert _echo(BitString(b"", 0)) == ""
    with pytest.raises(ValueError, match="9 bits of 8"):
        BitString(b"a", 9)


def test_atoms_that_mean_something_else_in_python() -> None:
    for name, meaning in [("true", True), ("false", False), ("none", None), ("undefined", None)]:
        assert type(Atom(name)) is Atom
        assert Atom(name) is Atom(name)
        assert _echo(Atom(name)) is meaning


def test_many_threads_at_once() -> None:
    names = [f"atom_of_threads_{index}" for index in range(200)]
    found: list[list[int]] = []

    def convert() -> None:
        mine = []
        for name in names:
            value = {"atom": Atom(name), "text": name, "big": b"x" * 70_000}
            assert _echo(value) == {**value, "big": "x" * 70_000}
            mine.append(id(_echo(value)["atom"]))
        found.append(mine)

    threads = [threading.Thread(target=convert) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(ids == found[0] for ids in found)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        assert _echo([(1, [2])]) == [(1, [2])]
        assert gc.isenabled() is enabled
        with pytest.raises(ConversionError):
            _echo([b"\xff"])
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.. copies:RuntimeWarning")
def test_a_forked_copy_has_no_erlang() -> None:
    values = [Atom("ok"), Handle(1)]
    child = os.fork()
    if child == 0:
        try:
            for call in (lambda: _echo(1), lambda: Atom("ok"), lambda: Handle(1)):
                with pytest.raises(RuntimeError, match="forked"):
                    call()
            # Released there, and untouched here.
            values.clear()
            gc.collect()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _echo(values) == ["ok", 1]


FROZENDICT = """
import builtins
from collections.abc import Mapping

if not hasattr(builtins, "frozendict"):
    class frozendict(Mapping):
        def __init__(self, **items): self.items_ = items
        def __getitem__(self, key): return self.items_[key]
        def __iter__(self): return iter(self.items_)
        def __len__(self): return len(self.items_)
    builtins.frozendict = frozendict

from erlang_loop._native import _echo
print(_echo([builtins.frozendict(a=1)]))
"""


def test_frozendict() -> None:
    """Built in from Python 3.15 on; a class like it before."""
    ended = run(ERLANG_LOOP, "-c", FROZENDICT)
    assert (ended.out, ended.err) == ("[{'a': 1}]\n", "")


def test_the_package_is_complete() -> None:
    assert all(
        getattr(erlang, name).__module__.split(".")[0] == "erlang" for name in erlang.__all__
    )
