"""Blocks of Python code in Elixir modules: the sigil `~PY` of `ErlangLoop.Sigil`.

As a program, run by the compiler of Elixir in a plain interpreter, it prints the names that a block
reads and those that it assigns. `run` is what the compiled module calls in the node.
"""

from __future__ import annotations

import ast
import symtable
import sys
import types
from collections.abc import Coroutine
from typing import Any

#: What a block returns: the value of its last expression, and the variables it has assigned.
Outcome = tuple[Any, dict[str, Any]]


def names(source: str) -> tuple[set[str], set[str]]:
    """The global names that the code may read, and those that it assigns.

    What is imported or defined (`def`, `class`) and names that begin with `_` stay in Python.
    """
    # symtable does not find all errors: a `return` outside of functions, for example.
    compile(source, "<PY>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    top = symtable.symtable(source, "<PY>", "exec")
    reads: set[str] = set()
    assigns: set[str] = set()
    tables = [top]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            if table is not top and not symbol.is_global():
                continue
            if symbol.is_referenced():
                reads.add(symbol.get_name())
            if symbol.is_assigned() and not (symbol.is_imported() or symbol.is_namespace()):
                assigns.add(symbol.get_name())
    return reads, {name for name in assigns if not name.startswith("_")}


def run(
    source: str,
    file: str,
    line: int,
    variables: dict[str, Any],
    wanted: list[str],
    namespace: types.ModuleType | None = None,
) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Runs the code, which begins at this line of an Elixir file; returns the variables `wanted`.

    Without a namespace, the names that it assigns are forgotten. A coroutine if the code has an
    `await` outside of functions: then all of it runs on a loop.
    """
    from erlang.snippets import parts

    if namespace is None:
        shell = sys.modules.get("erlang_loop_shell")
        space = {**(vars(shell) if shell else {}), "__name__": "__elixir__"}
    else:
        space = vars(namespace)
    space.update(variables)
    functions = parts(source, file, line, True, space)
    if any(function.__code__.co_flags & CO_COROUTINE for function in functions):
        return _awaited(functions[0](), space, wanted)
    value = None
    for function in functions:
        value = function()
    return _outcome(value, space, wanted)


CO_COROUTINE = 0x80


async def _awaited(
    coroutine: Coroutine[Any, Any, Any], space: dict[str, Any], wanted: list[str]
) -> Outcome:
    return _outcome(await coroutine, space, wanted)


def _outcome(value: Any, space: dict[str, Any], wanted: list[str]) -> Outcome:
    return _sendable(value), {name: _sendable(space[name]) for name in wanted if name in space}


def _sendable(value: Any) -> Any:
    """The value, or a handle of it if it has no form in Erlang."""
    import erlang

    from ._native import _echo

    try:
        _echo(value)
    except erlang.ConversionError:
        return erlang.Handle(value)
    return value


def main() -> None:
    try:
        reads, assigns = names(sys.argv[1])
    except SyntaxError as error:
        sys.exit(f"{error.lineno or 1}\t{error.msg}")
    print(" ".join(sorted(reads)))
    print(" ".join(sorted(assigns)))


if __name__ == "__main__":
    main()
