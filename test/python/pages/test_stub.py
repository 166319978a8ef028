"""Does `_native.pyi` say what the native module has?

Names, kinds and parameters are compared both ways. What a name's type is, only the stub knows.
"""

from __future__ import annotations

import ast
import inspect
import types
from pathlib import Path
from typing import Any

import erlang_loop
import pytest
from erlang_loop import _native

STUB = ast.parse(Path(erlang_loop.__file__).with_name("_native.pyi").read_text())

#: In the module, but private.
UNLISTED = {"__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__", "__all__"}
#: `__class__`: native transports return asyncio's class, so that isinstance is true.
UNLISTED_IN_CLASSES = {"__class__"}


def declared(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a module or a class of the stub declares, by name. Imports and type variables aside."""
    names: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
    return names


MODULE = declared(STUB.body)
CLASSES = [name for name, node in MODULE.items() if isinstance(node, ast.ClassDef)]


def members(class_name: str) -> dict[str, ast.stmt]:
    node = MODULE[class_name]
    assert isinstance(node, ast.ClassDef)
    return declared(node.body)


def is_private_to_python(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def parameters_in_stub(function: ast.FunctionDef, bound: bool) -> list[tuple[str, str, bool]]:
    """(name, kind, has a default) of each parameter, without self."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    required = len(plain) - len(arguments.defaults)
    listed = [
        (one.arg, "positional" if one in arguments.posonlyargs else "plain", index >= required)
        for index, one in enumerate(plain)
    ]
    if arguments.vararg:
        listed.append((arguments.vararg.arg, "variadic", False))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        listed.append((one.arg, "keyword", default is not None))
    if arguments.kwarg:
        listed.append((arguments.kwarg.arg, "any keyword", False))
    return listed[1:] if bound else listed


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
    inspect.Parameter.VAR_POSITIONAL: "variadic",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "any keyword",
}


def parameters_in_module(function: Any, bound: bool) -> list[tuple[str, str, bool]]:
    listed = [
        (one.name, KINDS[one.kind], one.default is not inspect.Parameter.empty)
        for one in inspect.signature(function).parameters.values()
    ]
    return listed[1:] if bound else listed


def test_module_has_the_names_of_the_stub() -> None:
    assert set(vars(_native)) - UNLISTED == set(MODULE)


@pytest.mark.parametrize("class_name", CLASSES)
def test_classes_have_the_names_of_the_stub(class_name: str) -> None:
    found = set(vars(getattr(_native, class_name))) - UNLISTED_IN_CLASSES
    listed = set(members(class_name))
    assert {name for name in found if not is_private_to_python(name)} == {
        name for name in listed if not is_private_to_python(name)
    }
    # Python adds dunder names of its own, so these are compared one way only.
    assert {name for name in listed if is_private_to_python(name)} - {"__init__"} <= found


@pytest.mark.parametrize(
    "name", [name for name, node in MODULE.items() if isinstance(node, ast.FunctionDef)]
)
def test_functions_take_what_the_stub_says(name: str) -> None:
    node = MODULE[name]
    assert isinstance(node, ast.FunctionDef)
    assert parameters_in_module(getattr(_native, name), False) == parameters_in_stub(node, False)


@pytest.mark.parametrize("class_name", CLASSES)
def test_methods_take_what_the_stub_says(class_name: str) -> None:
    for name, node in members(class_name).items():
        cls = getattr(_native, class_name)
        found = vars(cls).get(name)
        if name in ("__new__", "__init__"):
            assert isinstance(node, ast.FunctionDef)
            assert parameters_in_module(cls, False) == parameters_in_stub(node, True), name
        elif isinstance(node, ast.AnnAssign) or is_property(node):
            assert not inspect.isroutine(found), name
        elif isinstance(found, staticmethod):
            assert isinstance(node, ast.FunctionDef)
            assert parameters_in_module(found.__func__, False) == parameters_in_stub(node, False), (
                name
            )
        elif isinstance(found, types.MethodDescriptorType):
            assert isinstance(node, ast.FunctionDef)
            assert parameters_in_module(found, True) == parameters_in_stub(node, True), name
        else:
            # A slot (comparison, hash): its signature is the language's.
            assert is_private_to_python(name), name


def test_attributes_of_a_loop_can_be_set_where_the_stub_says_so() -> None:
    """A property in the stub is read-only; an attribute can be assigned to."""
    loop = erlang_loop.new_event_loop()
    try:
        for name, node in members("Loop").items():
            if is_property(node):
                with pytest.raises(AttributeError):
                    setattr(loop, name, getattr(loop, name))
            elif isinstance(node, ast.AnnAssign):
                setattr(loop, name, getattr(loop, name))
    finally:
        loop.close()


def is_property(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id == "property"
        for decorator in node.decorator_list
    )
