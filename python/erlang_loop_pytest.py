"""The pytest plugin `erlang_loop`: in a node, tests run on ErlangEventLoop.

pytest loads it by its entry point, in every run in an environment where erlang_loop is installed.
Outside a node it does nothing, which is why it is not part of the package: importing that fails
there. `-p no:erlang_loop` disables it.

ErlangEventLoop becomes asyncio's default loop, and with it that of anyio, of unittest and of older
versions of pytest-asyncio; newer versions get it through their loop factory hook. A suite that
selects loops itself (its own factories, an `event_loop_policy` fixture, anyio's backend options)
keeps its choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import erlang_loop_default
import pytest

try:
    import erlang_loop
except ImportError:
    IN_NODE = False
else:
    IN_NODE = True

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before any code of the suite runs."""
    if IN_NODE:
        erlang_loop_default.install()


def pytest_report_header() -> str | None:
    if not IN_NODE:
        return None
    return f"erlang_loop {erlang_loop.__version__}: tests run on ErlangEventLoop"


class LoopFactories:
    """For the hook of pytest-asyncio 1.4 and newer."""

    # Last: the suite's own implementation comes before.
    @pytest.hookimpl(trylast=True, optionalhook=True)
    def pytest_asyncio_loop_factories(self, item: pytest.Item) -> Mapping[str, LoopFactory]:
        if _has_own_policy(item):
            return {"policy": asyncio.new_event_loop}
        return {"erlang_loop": erlang_loop.new_event_loop}


def pytest_configure(config: pytest.Config) -> None:
    if IN_NODE:
        config.pluginmanager.register(LoopFactories(), "erlang_loop_factories")


def _has_own_policy(item: pytest.Item) -> bool:
    """Whether the suite overrides pytest-asyncio's `event_loop_policy`."""
    assert isinstance(item, pytest.Function)
    policies = item._fixtureinfo.name2fixturedefs.get("event_loop_policy", ())
    return any(not policy.func.__module__.startswith("pytest_asyncio") for policy in policies)
