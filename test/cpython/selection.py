"""Which tests there are: the modules of test.test_asyncio and the cases in them."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
import types
import unittest
from collections.abc import Iterator

PACKAGE = "test.test_asyncio"


def modules(names: list[str]) -> list[str]:
    """The named test modules of the running Python, or all of them."""
    if names:
        return names
    package = importlib.import_module(PACKAGE)
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in found if name.startswith("test_"))


def load(name: str) -> types.ModuleType:
    return importlib.import_module(f"{PACKAGE}.{name}")


def tests(module: types.ModuleType, patterns: list[str]) -> Iterator[unittest.TestCase]:
    """The cases of a module, one by one; those that match a pattern, if there are any."""
    loader = unittest.TestLoader()
    if patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in patterns]
    yield from _flat(loader.loadTestsFromModule(module))


def short_name(test: unittest.TestCase) -> str:
    """`test_events.HandleTests.test_handle`."""
    return test.id()[len(PACKAGE) + 1 :] if test.id().startswith(PACKAGE) else test.id()


def matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flat(item)
        else:
            yield item
