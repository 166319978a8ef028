"""The API pages of the Python packages, from source: they can be imported only inside a node."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docs_site.pages import ROOT

PACKAGES = (
    *("erlang", "erlang_asyncio", "erlang_loop", "erlang_loop.asgi", "erlang_loop.callbacks"),
    *("erlang_loop.files", "erlang_loop.generators", "erlang_loop.http", "erlang_loop.peers"),
)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def write(to: Path) -> None:
    to.mkdir(parents=True)
    rows = []
    for package in PACKAGES:
        folder = ROOT / "python" / package.replace(".", "/")
        module = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        about = ast.get_docstring(module) or ""
        parts = [f"# {package}", about, *described(folder, module)]
        (to / f"{package}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        rows.append(f"| [{package}]({package}.md) | {about.splitlines()[0] if about else ''} |")
    index = "# Python API\n\n| package | what it has |\n|---|---|\n" + "\n".join(rows) + "\n"
    (to / "index.md").write_text(index, encoding="utf-8")


def described(folder: Path, module: ast.Module) -> Iterator[str]:
    """The public names, with the modules that define them."""
    for statement in ast.walk(module):
        if not isinstance(statement, ast.ImportFrom) or not statement.module:
            continue
        for alias in statement.names:
            name = alias.asname or alias.name
            if name.startswith("_"):
                continue
            found = find(source(folder, statement), alias.name)
            if found:
                yield from entry(name, found)


def source(folder: Path, statement: ast.ImportFrom) -> Path:
    """The file that a name is imported from."""
    parts = (statement.module or "").split(".")
    base = folder if statement.level else ROOT / "python"
    for _ in range(statement.level - 1):
        base = base.parent
    path = base.joinpath(*parts)
    for candidate in (path.with_suffix(".py"), path.with_suffix(".pyi"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return path


def find(path: Path, name: str) -> Definition | None:
    if not path.is_file():
        return None
    module = ast.parse(path.read_text(encoding="utf-8"))
    for statement in module.body:
        if isinstance(statement, Definition) and statement.name == name:
            return statement
    return None


def entry(name: str, found: Definition) -> Iterator[str]:
    if isinstance(found, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in found.bases)
        yield f"## {name}"
        yield f"```python\nclass {name}({bases})\n```" if bases else f"```python\nclass {name}\n```"
        yield ast.get_docstring(found) or ""
        for method in found.body:
            public = isinstance(method, Definition) and not method.name.startswith("_")
            if public and isinstance(method, Definition):
                yield f"### {name}.{method.name}"
                yield from signature(method)
    else:
        yield f"## {name}"
        yield from signature(found)


def signature(found: Definition) -> Iterator[str]:
    if not isinstance(found, ast.ClassDef):
        kind = "async def" if isinstance(found, ast.AsyncFunctionDef) else "def"
        returns = f" -> {ast.unparse(found.returns)}" if found.returns else ""
        yield f"```python\n{kind} {found.name}({ast.unparse(found.args)}){returns}\n```"
    yield ast.get_docstring(found) or ""
