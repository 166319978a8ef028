"""Do encoders and decoders of the program run where they should, and what if they are wrong?"""

from __future__ import annotations

import datetime
import gc
import importlib
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import erlang
import pytest
from erlang import Atom, ConversionError
from erlang_loop._native import _echo


class Point:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self) -> int:
        return hash((self.x, self.y))


class Named(Point):
    """A subclass."""


@pytest.fixture
def registered() -> Iterator[None]:
    @erlang.encoder(Point)
    def encode(point: Point) -> Any:
        return Atom("test_point"), point.x, point.y

    @erlang.decoder("test_point")
    def decode(x: Any, y: Any) -> Point:
        if x == "wrong":
            raise ValueError("no such point")
        return Point(x, y)

    yield
    erlang.remove_encoder(Point)
    erlang.remove_decoder("test_point")


@pytest.mark.usefixtures("registered")
def test_objects_come_back_as_they_went() -> None:
    for value in [
        Point(1, 2),
        [Point(1, "a"), {"k": Point(None, [1.5])}],
        Point(Point(1, 2), (Point(3, 4),)),
        {Point(1, 2): {Point(3, 4)}},
        [Point(n, [n]) for n in range(1000)],
    ]:
        assert _echo(value) == value


def test_nothing_is_registered_any_more() -> None:
    with pytest.raises(ConversionError, match=r"cannot send .*Point"):
        _echo(Point(1, 2))
    assert _echo((Atom("test_point"), 1, 2)) == (Atom("test_point"), 1, 2)


@pytest.mark.usefixtures("registered")
def test_an_encoder_is_for_exactly_its_class() -> None:
    with pytest.raises(ConversionError, match=r"^value\[0\]: cannot send .*Named"):
        _echo([Named(1, 2)])


@pytest.mark.usefixtures("registered")
def test_what_an_encoder_returns_is_converted_like_any_value() -> None:
    with pytest.raises(ConversionError, match=r"^value\[1\]\[2\]: cannot send <class 'object'>"):
        _echo([0, Point(1, object())])


def test_an_encoder_can_replace_the_form_of_a_library_class() -> None:
    erlang.encoder(datetime.date)(datetime.date.isoformat)
    try:
        assert _echo([datetime.date(2024, 2, 29)]) == ["2024-02-29"]
    finally:
        erlang.remove_encoder(datetime.date)
    assert _echo(datetime.date(2024, 2, 29)) == datetime.date(2024, 2, 29)


def test_an_encoder_that_raises_names_the_place() -> None:
    @erlang.encoder(Point)
    def encode(point: Point) -> Any:
        return 1 // point.x

    try:
        with pytest.raises(ZeroDivisionError) as raised:
            _echo({"points": [Point(1, 1), Point(0, 1)]})
    finally:
        erlang.remove_encoder(Point)
    assert raised.value.__notes__ == ['while value["points"][1] was sent to Erlang']


@pytest.mark.parametrize("other", [Named, Point])
def test_encoders_that_return_each_others_classes(other: type[Point]) -> None:
    erlang.encoder(Point)(lambda point: other(point.x, point.y))
    erlang.encoder(Named)(lambda point: Point(point.x, point.y))
    try:
        with pytest.raises(ConversionError, match=r"^value\[0\]: (cannot send|the encoder of)"):
            _echo([Point(1, 2)])
    finally:
        erlang.remove_encoder(Point)
        erlang.remove_encoder(Named)


@pytest.mark.usefixtures("registered")
def test_a_decoder_that_raises_names_the_place() -> None:
    with pytest.raises(ValueError, match="no such point") as raised:
        _echo([{"a": (Atom("test_point"), "wrong", 1)}])
    assert raised.value.__notes__ == ['while value[0]["a"] was decoded from Erlang']


@pytest.mark.usefixtures("registered")
def test_a_tuple_of_another_size_does_not_fit_the_decoder() -> None:
    for fields in [(), (1,), (1, 2, 3)]:
        with pytest.raises(TypeError, match="argument"):
            _echo((Atom("test_point"), *fields))


@pytest.mark.parametrize(
    ("returned", "place"),
    [
        # A key and a member of a set must be hashable.
        (lambda value: {(Atom("test_any"), 1): 1}, "key"),
        (lambda value: {(Atom("test_any"), 1)}, "member"),
    ],
)
def test_a_decoder_that_returns_what_cannot_be_there(returned: Any, place: str) -> None:
    erlang.decoder("test_any")(lambda _: [])
    try:
        with pytest.raises(ConversionError, match="unhashable"):
            _echo(returned(None))
        # Elsewhere it can be.
        assert _echo([(Atom("test_any"), 1)]) == [[]]
    finally:
        erlang.remove_decoder("test_any")


def test_a_decoder_that_returns_equal_keys() -> None:
    erlang.decoder("test_any")(lambda _: 0)
    try:
        with pytest.raises(ConversionError, match="two keys of the map are equal"):
            _echo({(Atom("test_any"), 1): 1, (Atom("test_any"), 2): 2})
    finally:
        erlang.remove_decoder("test_any")


def test_a_decoder_that_returns_a_coroutine() -> None:
    async def later(_: Any) -> None:
        """Is never awaited."""

    def decode(value: Any) -> Any:
        return later(value)

    erlang.decoder("test_any")(decode)
    try:
        with pytest.raises(ConversionError, match=r"^value\[0\]: the decoder returned a coroutine"):
            _echo([(Atom("test_any"), 1)])
    finally:
        erlang.remove_decoder("test_any")


def test_structs_are_decoded_by_their_module() -> None:
    struct = {Atom("__struct__"): Atom("Elixir.Test.Order"), Atom("number"): 1, Atom("lines"): [2]}
    assert _echo(struct) == struct
    erlang.decoder("Elixir.Test.Order")(lambda number, lines: (number, lines))
    try:
        assert _echo([struct]) == [(1, [2])]
        with pytest.raises(TypeError, match="unexpected keyword argument 'extra'"):
            _echo({**struct, Atom("extra"): 1})
    finally:
        erlang.remove_decoder("Elixir.Test.Order")


@pytest.mark.usefixtures("registered")
def test_a_second_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Point has an encoder already: .*encode"):
        erlang.encoder(Point)(lambda point: point)
    with pytest.raises(ValueError, match=r"the tag 'test_point' has a decoder already: .*decode"):
        erlang.decoder("test_point")(lambda x, y: (x, y))
    assert _echo(Point(1, 2)) == Point(1, 2)


def test_a_module_that_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "loaded_twice.py"
    lines = "import erlang\n@erlang.decoder('test_twice')\ndef decode(x):\n    return {}\n"
    source.write_text(lines.format("1"))
    module = importlib.import_module("loaded_twice")
    try:
        source.write_text(lines.format("'second'"))
        importlib.reload(module)
        assert _echo((Atom("test_twice"), 0)) == "second"
    finally:
        erlang.remove_decoder("test_twice")


def test_what_cannot_be_registered() -> None:
    async def coroutine_function(_: Any) -> None:
        """Cannot be awaited during a conversion."""

    for cls in (str, int, dict, type(None), Atom, erlang.Pid):
        with pytest.raises(ValueError, match="has a form in Erlang"):
            erlang.encoder(cls)
    for tag in ("date", "bytes", Atom("set")):
        with pytest.raises(ValueError, match="have a meaning"):
            erlang.decoder(tag)
    wrong: Any
    for wrong in (1, "Point", Point(1, 2)):
        with pytest.raises(TypeError, match="an encoder is for a class"):
            erlang.encoder(wrong)
    for wrong in (1, b"tag", Point):
        with pytest.raises(TypeError, match="the tag of a decoder is a str"):
            erlang.decoder(wrong)
    for wrong in (coroutine_function, None, "f"):
        with pytest.raises(TypeError, match="cannot be"):
            erlang.encoder(Point)(wrong)
        with pytest.raises(TypeError, match="cannot be"):
            erlang.decoder("test_any")(wrong)
    with pytest.raises(LookupError, match="has no encoder"):
        erlang.remove_encoder(Point)
    with pytest.raises(LookupError, match="'test_any' has no decoder"):
        erlang.remove_decoder("test_any")


def test_a_removed_encoder_and_its_class_are_freed() -> None:
    class Short:
        """Ends with this test."""

    erlang.encoder(Short)(lambda short: 5)
    assert _echo(Short()) == 5
    erlang.remove_encoder(Short)
    gone = weakref.ref(Short)
    del Short
    gc.collect()
    assert gone() is None


def test_threads_register_and_convert_at_once() -> None:
    """Each conversion finds the encoder or does not; nothing else happens."""
    ended = threading.Event()
    unexpected: list[BaseException] = []

    def convert() -> None:
        while not ended.is_set():
            try:
                assert _echo([Point(1, 2)]) == [3]
            except ConversionError:
                pass
            except BaseException as error:
                unexpected.append(error)

    threads = [threading.Thread(target=convert) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2000):
        erlang.encoder(Point)(lambda point: point.x + point.y)
        erlang.remove_encoder(Point)
    ended.set()
    for thread in threads:
        thread.join()
    assert unexpected == []
