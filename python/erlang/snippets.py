"""Code that arrives as text: `py:eval`, `py:exec`, and the blocks of Elixir (`erlang_loop.blocks`).

It runs as a cell of a notebook does: several statements, the last expression is the value, and
`await` outside of functions. `native/py_nif/src/requests/snippet.rs` calls what `parts` returns, so
that no function of this package is in tracebacks.
"""

from __future__ import annotations

import ast
import inspect
import symtable
from collections.abc import Collection
from types import CodeType, FunctionType
from typing import Any

from . import sources


def parts(
    source: str,
    file: str,
    line: int,
    wants_value: bool,
    space: dict[str, Any],
    variables: Collection[str] = (),
) -> list[FunctionType]:
    """Functions that run the code with these globals, when they are called one after another.

    Each takes the variables as keyword arguments. The last one returns the value, or a coroutine if
    the code has an `await` outside of functions; then it is the only one.

    The code begins at this line of the file. If there is no such file, tracebacks show the lines of
    `source`.
    """
    source = "\n" * (line - 1) + source
    try:
        codes = _codes(source, file, wants_value, variables)
    except SyntaxError as error:
        sources.complete(error, source)
        raise
    if line == 1 and file.startswith("<"):
        sources.keep(file, source, codes)
    else:
        sources.put(file, source, line)
    return [FunctionType(code, space) for code in codes]


def _codes(source: str, file: str, wants_value: bool, variables: Collection[str]) -> list[CodeType]:
    if wants_value and not variables:
        try:
            return [_compile(source, file, "eval")]
        except SyntaxError:
            pass  # Statements, or an error that is found again below.
    tree = ast.parse(source, file)
    # This finds all errors: a `return` outside of functions is none to the parser.
    whole = _compile(tree, file)
    last = tree.body[-1] if wants_value and tree.body else None
    if variables:
        return [_as_function(tree, source, file, variables, wants_value, _is_async(whole))]
    if not isinstance(last, ast.Expr):
        return [whole]
    if _is_async(whole):
        return [_as_function(tree, source, file, (), True, True)]
    del tree.body[-1]
    return [_compile(tree, file), _compile(ast.Expression(last.value), file, "eval")]


def _compile(code: str | ast.Module | ast.Expression, file: str, mode: str = "exec") -> CodeType:
    compiled = compile(code, file, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    assert isinstance(compiled, CodeType)
    return compiled


def _is_async(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _as_function(
    tree: ast.Module,
    source: str,
    file: str,
    variables: Collection[str],
    wants_value: bool,
    is_async: bool,
) -> CodeType:
    """The code as the body of a function with the variables as parameters.

    So functions and comprehensions in the code find the variables, and no other code does. All
    other names that the code assigns are global, as they are without variables.
    """
    assigned = _assigned(tree, source, file, is_async)
    body = _WithoutAnnotations().visit(tree).body
    if wants_value and body and isinstance(body[-1], ast.Expr):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    names = sorted(assigned.difference(variables))
    module = ast.parse("async def f(): pass" if is_async else "def f(): pass")
    function = module.body[0]
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    function.name = "<module>"
    function.args.args = [ast.arg(name) for name in variables]
    function.body = [*([ast.Global(names)] if names else []), *(body or [ast.Pass()])]
    outer = _compile(ast.fix_missing_locations(module), file)
    return next(code for code in outer.co_consts if isinstance(code, CodeType))


def _assigned(tree: ast.Module, source: str, file: str, is_async: bool) -> set[str]:
    """The names that the code assigns, imports or declares global."""
    if is_async:
        # From Python 3.15 on, symtable refuses an `await` outside of functions.
        function = ast.parse("async def f(): pass")
        assert isinstance(function.body[0], ast.AsyncFunctionDef)
        function.body[0].body = tree.body
        table = symtable.symtable(ast.unparse(function), file, "exec").get_children()[0]
    else:
        table = symtable.symtable(source, file, "exec")
    return {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_declared_global()
    }


class _WithoutAnnotations(ast.NodeTransformer):
    """Removes the annotations of variables: in a function, global names cannot have one."""

    def visit(self, node: ast.AST) -> Any:
        leaves = (ast.expr, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return node if isinstance(node, leaves) else super().visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)
