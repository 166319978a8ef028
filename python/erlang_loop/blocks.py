"""Blocks of Python code in Elixir modules: the sigil `~PY` of `ErlangLoop.Sigil`.

As a program, run by the compiler of Elixir in a plain interpreter, it prints the names that a block
reads and those that it assigns. `run` is what the compiled module calls in the node.
"""

from __future__ import annotations

import ast
import linecache
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
    source: str, file: str, line: int, variables: dict[str, Any], wanted: list[str]
) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Runs the code, which begins at this line of an Elixir file; returns the variables `wanted`.

    A coroutine if the code has an `await` outside of functions: then all of it runs on a loop.
    """
    tree = ast.parse(source, file)
    ast.increment_lineno(tree, line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    codes = [_compile(tree, file, "exec")]
    if isinstance(last, ast.Expr):
        codes.append(_compile(ast.Expression(last.value), file, "eval"))
    shell = sys.modules.get("erlang_loop_shell")
    space = {**(vars(shell) if shell else {}), "__name__": "__elixir__", **variables}
    # The file may be newer than its last traceback.
    linecache.checkcache(file)
    functions = [types.FunctionType(code, space) for code in codes]
    if any(code.co_flags & CO_COROUTINE for code in codes):
        return _awaited(functions, codes, space, wanted)
    value = None
    for function in functions:
        value = function()
    return _outcome(value, space, wanted)


CO_COROUTINE = 0x80


def _compile(tree: ast.Module | ast.Expression, file: str, mode: str) -> types.CodeType:
    code = compile(tree, file, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    assert isinstance(code, types.CodeType)
    return code


async def _awaited(
    functions: list[types.FunctionType],
    codes: list[types.CodeType],
    space: dict[str, Any],
    wanted: list[str],
) -> Outcome:
    value = None
    for function, code in zip(functions, codes):
        value = function()
        if code.co_flags & CO_COROUTINE:
            value = await value
    return _outcome(value, space, wanted)


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
