"""The defaults of Python in a node. Native code calls this at the start of every interpreter.

Not part of the package `erlang_loop`, because importing that imports asyncio: a program that does
without asyncio (or multiprocessing) should not pay for it. So this waits for their import and
acts then.

It is imported before pytest, which is not to warn that it cannot rewrite its asserts:
PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import importlib
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
    """Prepares every node: processes must not be started by copying the VM.

    Called on Python's main thread, so `threading` is imported here: before Python 3.13 the thread
    that imports it is `threading.main_thread()`, and a call thread would set signal handlers then.
    """
    import threading  # noqa: F401

    import erlang_loop_fork

    _after_import(_prefer_spawn, "multiprocessing.context")
    _after_import(_end_children_with_node, "multiprocessing.process")

    os.register_at_fork(before=erlang_loop_fork.before, after_in_child=erlang_loop_fork.in_child)


def install() -> None:
    """Makes ErlangEventLoop asyncio's default loop: asyncio.run, Runner and new_event_loop use it.

    Called under `bin/erlang-loop` and, with the setting `default_event_loop`, in any other node.
    """
    _after_import(_make_default, "asyncio")


def show_crashes() -> None:
    """Makes a signal such as SIGSEGV write the stacks of all Python threads to stderr.

    The crash of an extension module ends the node, and would leave nothing behind.
    """
    import faulthandler

    # The file of the process, which exists: not what Python code may put into `sys.stderr`.
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)


def redirect_output() -> None:
    """Redirects Python's output and logs to Erlang: in a node that `bin/erlang-loop` did not start.

    This decides nothing permanently: each write checks whether Erlang takes it.
    """
    from erlang_output import streams, unhandled

    streams.install()
    unhandled.install()
    _after_import(_log_to_erlang, "logging")


def _log_to_erlang() -> None:
    from erlang_output import log_handler

    log_handler.install()


def _make_default() -> None:
    # The thread that has just imported asyncio calls this, with asyncio's import lock. Another
    # thread may be importing `erlang_loop` and wait for that lock: so the first loop imports it.
    import asyncio

    if sys.version_info >= (3, 16):
        # Policies no longer exist.
        asyncio.new_event_loop = asyncio.events.new_event_loop = _new_event_loop
    elif sys.version_info >= (3, 14):
        # The public names warn that policies are deprecated.
        asyncio.events._set_event_loop_policy(_policy(asyncio.unix_events._DefaultEventLoopPolicy))
    else:
        asyncio.set_event_loop_policy(_policy(asyncio.DefaultEventLoopPolicy))


def _policy(base: Any) -> Any:
    class EventLoopPolicy(base):  # type: ignore[misc]
        """Makes every new event loop an ErlangEventLoop."""

        _loop_factory = staticmethod(_new_event_loop)

    return EventLoopPolicy()


def _new_event_loop() -> Any:
    from erlang_loop import new_event_loop

    return new_event_loop()


def _prefer_spawn() -> None:
    """Makes multiprocessing start a fresh python for each process, unless the program chooses.

    The default on Linux, `fork`, would copy a VM of many threads with only one of them.
    """
    context: Any = sys.modules["multiprocessing.context"]
    context._default_context._default_context = context._concrete_contexts["spawn"]


def not_here(package: str) -> ImportError:
    """Why a package of ours cannot be imported where its native module is missing."""
    if _in_subinterpreter():
        return ImportError(
            f"{package} does not support sub-interpreters: the classes of its native module belong "
            "to the main interpreter. Use threads or processes instead"
        )
    from importlib.util import find_spec

    # The wheel installs the command.
    command = "erlang-loop" if find_spec("erlang_loop_node") else "bin/erlang-loop"
    return ImportError(
        f"{package} works inside an Erlang node: run your program with `{command} "
        "program.py`, or start the erlang_loop application in your own node"
    )


def _in_subinterpreter() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):  # the first from Python 3.13 on
        try:
            interpreters: Any = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() != interpreters.get_main())
    return False


def _end_children_with_node() -> None:
    """Makes the node kill the processes of multiprocessing if it ends before they do.

    `erlang:halt/1` does not wait for Python, whose atexit functions end or join them.
    """
    process: Any = sys.modules["multiprocessing.process"]
    process._children = _Children(process._children)


class _Children(set):  # type: ignore[type-arg] # Any is not imported here
    """multiprocessing's set of running children; each of them is registered with native code."""

    def __init__(self, children: set[Any]) -> None:
        super().__init__()
        self._killed_at_end: dict[Any, object] = {}
        for child in children:
            self.add(child)

    def add(self, child: Any, /) -> None:
        super().add(child)
        try:
            self._killed_at_end[child] = _native().ChildProcess(child.pid)
        except ProcessLookupError:
            pass  # It has ended already.
        except OSError as error:
            import warnings

            text = f"{child!r} will not be killed if the node ends before it does: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def discard(self, child: Any, /) -> None:
        super().discard(child)
        self._killed_at_end.pop(child, None)


def _native() -> Any:
    return sys.modules["py_event_loop"]


def _after_import(action: Callable[[], None], name: str) -> None:
    """Calls `action` when this module is loaded: now, or as soon as it is imported."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(action, name))


class _Finder:
    """Calls an action when a module is imported for the first time."""

    def __init__(self, action: Callable[[], None], name: str) -> None:
        self.action = action
        self.name = name

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads a module as usual, then calls the action."""

    def __init__(self, finder: _Finder, loader: Loader) -> None:
        self._finder = finder
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Restore the original loader: tools ask it for the source.
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        finder = self._finder
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
            finder.action()
