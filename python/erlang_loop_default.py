"""The defaults of Python in a node. Native code calls this at the start of every interpreter.

Not part of the package `erlang_loop`, because importing that imports asyncio: a program that does
without asyncio (or multiprocessing) should not pay for it. So this waits for their import and
acts then.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False  # without importing typing, which takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from types import ModuleType
    from typing import Any


def prepare() -> None:
    """What holds in every node: processes are not started by copying the VM."""
    _after_import(_prefer_spawn, "multiprocessing.context")
    os.register_at_fork(before=_warn_about_fork)


def install() -> None:
    """Makes ErlangEventLoop asyncio's default loop: what `bin/erlang-loop` adds."""
    # Our own package imports asyncio: whichever comes first, both have to be complete.
    _after_import(_make_default, "asyncio", "erlang_loop")


def redirect_output() -> None:
    """Has what Python prints and logs go to Erlang: in a node that `bin/erlang-loop` did not start.

    Nothing of it is chosen here for good: whether Erlang takes it is asked each time.
    """
    from erlang_output import streams, unhandled

    streams.install()
    unhandled.install()
    _after_import(unhandled.install_for_threads, "threading")
    _after_import(_log_to_erlang, "logging")


def _log_to_erlang() -> None:
    from erlang_output import log_handler

    log_handler.install()


def _make_default() -> None:
    from erlang_loop import compat, new_event_loop

    compat.set_default_loop(new_event_loop)


def _prefer_spawn() -> None:
    """Has multiprocessing start a fresh python for each process, unless the program chooses.

    Its default on Linux, `fork`, would copy a VM of many threads with one of them.
    """
    context: Any = sys.modules["multiprocessing.context"]
    context._default_context._default_context = context._concrete_contexts["spawn"]


_warned = False


def _warn_about_fork() -> None:
    """Called before `os.fork()`, but not before subprocesses: those run another program at once."""
    global _warned
    if not _warned:
        import warnings

        _warned = True
        text = (
            "os.fork() copies the Erlang VM with only the calling thread: Erlang, and every lock "
            "another thread holds, stand still in the child. Use subprocess, or multiprocessing "
            "with its default here, 'spawn'."
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _after_import(action: Callable[[], None], *names: str) -> None:
    """Calls `action` when one of these modules is there: now, or as soon as it is imported."""
    if any(name in sys.modules for name in names):
        action()
    else:
        sys.meta_path.insert(0, _Finder(action, names))


class _Finder:
    """Watches for some modules until one is there."""

    def __init__(self, action: Callable[[], None], names: Sequence[str]) -> None:
        self.action = action
        self.names = names
        #: How many of them are being imported at the moment.
        self.depth = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads a module as ever, and acts when all that are being imported are complete."""

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
            finder.action()
