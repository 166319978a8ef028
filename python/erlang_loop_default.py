"""Makes ErlangEventLoop asyncio's default loop. `bin/erlang-loop` calls `install` at the start.

Not part of the package `erlang_loop`, because importing that imports asyncio: a program that does
without asyncio should not pay for it. So this waits for asyncio's import and acts then.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False  # without importing typing, which takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from types import ModuleType


def install() -> None:
    """Has every later `import asyncio` find our loop as its default."""
    if "asyncio" in sys.modules:
        _make_default()
    else:
        sys.meta_path.insert(0, _Finder())


def _make_default() -> None:
    from erlang_loop import compat, new_event_loop

    compat.set_default_loop(new_event_loop)


class _Finder:
    """Watches for asyncio, and for our own package, which imports it."""

    def __init__(self) -> None:
        #: How many of the two are being imported at the moment.
        self.depth = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in ("asyncio", "erlang_loop"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads a module as ever, and chooses the loop when both are complete."""

    def __init__(self, finder: _Finder, loader: Loader) -> None:
        self._finder = finder
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Nothing of this file stays behind: tools look at the loader for the source.
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        finder = self._finder
        finder.depth += 1
        try:
            self._loader.exec_module(module)
        finally:
            finder.depth -= 1
        if finder.depth == 0 and finder in sys.meta_path:
            sys.meta_path.remove(finder)
            _make_default()
