"""The `loop` fixture: a test that takes it runs on asyncio's own loop and on ErlangEventLoop.

Coroutine tests run in the loop; plain ones do with it what they want. Marked `ours`, a test runs
on ErlangEventLoop only. After each, nothing may be left: see `leaks.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import leaks
import pytest
import trustme
from both_loops import LOOPS
from erlang_loop.callbacks import CallbackLoop
from erlang_loop.generators import GeneratorLoop

#: Seconds after which a test hangs. No test waits that long: each waits for its event.
PATIENCE = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run on asyncio's loop, too, what is marked `ours`: do the tests themselves hold?"
    parser.addoption("--both-loops", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ours: what only ErlangEventLoop does, or is for")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # The suite is a job in the background. The programs that tests interrupt are not.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "loop_name" in metafunc.fixturenames:
        ours = metafunc.definition.get_closest_marker("ours")
        both = not ours or metafunc.config.getoption("--both-loops")
        metafunc.parametrize("loop_name", list(LOOPS) if both else ["erlang_loop"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test in its loop."""
    loop = pyfuncitem.funcargs.get("loop")
    if loop is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    loop.run_until_complete(asyncio.wait_for(test, PATIENCE))
    return True


@pytest.fixture
def unhandled() -> list[dict[str, object]]:
    """What reached the loop's exception handler. A test takes out what it expected."""
    return []


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for Unix sockets, whose paths have at most 107 bytes: TMPDIR may be longer."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ends after `loop`, and so without it: a loop's own fds go with the last reference to it."""
    with leaks.none_left():
        yield
        for name in ("loop", "callbacks", "generators"):
            request.node.funcargs.pop(name, None)


@pytest.fixture
def loop(
    loop_name: str, nothing_left: None, unhandled: list[dict[str, object]]
) -> Iterator[asyncio.AbstractEventLoop]:
    loop = LOOPS[loop_name]()
    loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
    asyncio.set_event_loop(loop)
    try:
        yield loop
        leaks.settle(loop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert unhandled == [], "the loop's exception handler was called"


def front(loop: CallbackLoop, unhandled: list[dict[str, object]]) -> Iterator[CallbackLoop]:
    loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
    try:
        yield loop
    finally:
        loop.shutdown(patience=PATIENCE)
    assert unhandled == [], "the loop's exception handler was called"


@pytest.fixture
def callbacks(nothing_left: None, unhandled: list[dict[str, object]]) -> Iterator[CallbackLoop]:
    yield from front(CallbackLoop(), unhandled)


@pytest.fixture
def generators(nothing_left: None, unhandled: list[dict[str, object]]) -> Iterator[GeneratorLoop]:
    yield from front(GeneratorLoop(), unhandled)


class Certificates(NamedTuple):
    """Two TLS contexts that trust each other, for localhost."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    #: The authority and the server's key with its chain, as files.
    authority_file: str
    server_file: str


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return Certificates(server, client, str(folder / "authority.pem"), str(folder / "server.pem"))
