"""Imports an application by its name, `module:attribute`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


class AppImportError(Exception):
    """The application cannot be imported, or is not one."""


def import_app(name: str, *, app_dir: str | None = None, factory: bool = False) -> Any:
    """The application `module:attribute`. Errors of the module itself are raised as they are."""
    module_name, colon, attributes = name.partition(":")
    if not (module_name and colon and attributes):
        raise AppImportError(f"the application {name!r} must have the form 'module:attribute'")
    folder = os.path.abspath(app_dir or ".")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that the application imports is its own error.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise AppImportError(f"there is no module {module_name!r} (app_dir: {folder})") from None
    app: Any = module
    for attribute in attributes.split("."):
        try:
            app = getattr(app, attribute)
        except AttributeError:
            text = f"the module {module_name!r} has no attribute {attributes!r}"
            raise AppImportError(text) from None
    return check(app() if factory else app, name)


def check(app: Any, name: str) -> Any:
    """The application, if it can be one."""
    if not callable(app):
        raise AppImportError(f"{name!r} is not an ASGI application: it cannot be called")
    return app


def forget_modules(app_dir: str | None) -> list[str]:
    """Drops the modules below `app_dir`, so that the next import reads their files again."""
    folder = os.path.join(os.path.realpath(app_dir or "."), "")
    kept = tuple(os.path.join(os.path.realpath(path), "") for path in installed())
    gone = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or name == "__main__":
            continue
        path = os.path.realpath(path)
        if path.startswith(folder) and not path.startswith(kept):
            del sys.modules[name]
            gone.append(name)
    importlib.invalidate_caches()
    return gone


def installed() -> list[str]:
    """Folders with what is installed, and this package: never reloaded."""
    import sysconfig

    paths = sysconfig.get_paths()
    own = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    return [paths["stdlib"], paths["purelib"], paths["platlib"], own]
