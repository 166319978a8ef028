"""Real libraries with real peers, on ErlangEventLoop.

`--both-loops` runs them on asyncio's, too, where they pass as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import erlang_loop
import pytest
import servers


@pytest.fixture(autouse=True)
def on_our_loop(loop: asyncio.AbstractEventLoop, loop_name: str) -> None:
    """Nothing here runs on another loop by mistake."""
    if loop_name == "erlang_loop":
        assert type(loop) is erlang_loop.ErlangEventLoop


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The folder of a PostgreSQL server's Unix socket."""
    with servers.postgres() as folder:
        yield folder


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[str]:
    with servers.redis() as path:
        yield path
