"""When the `repr()` of what failed raises as well, the error is reported with a placeholder."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import time
from typing import Any

import pytest
from connections import eventually

pytestmark = pytest.mark.ours


class OursError(Exception):
    """Raised on purpose."""


class Nameless(asyncio.Protocol):
    def __init__(self, seconds: float = 0) -> None:
        self._seconds = seconds

    def __repr__(self) -> str:
        raise LookupError("no repr")

    def __call__(self, *_args: object) -> None:
        time.sleep(self._seconds)
        raise OursError

    def data_received(self, data: bytes) -> None:
        raise OursError


class WithoutQualname:
    def __getattribute__(self, name: str) -> Any:
        if name == "__qualname__":
            raise LookupError(name)
        return super().__getattribute__(name)

    def __call__(self) -> None:
        raise OursError


def reports(log: pytest.LogCaptureFixture) -> list[str]:
    """What asyncio's handler has logged about our errors."""
    return [
        record.getMessage()
        for record in log.records
        if record.exc_info and record.exc_info[0] is OursError
    ]


@pytest.mark.parametrize(
    "callback",
    [Nameless(), functools.partial(Nameless(), Nameless()), WithoutQualname()],
    ids=["instance", "partial", "without __qualname__"],
)
@pytest.mark.parametrize("debug", [False, True])
async def test_callbacks(loop, caplog, callback, debug):
    """The loop goes on, and its default handler logs the error itself."""
    loop.set_exception_handler(None)
    loop.set_debug(debug)
    loop.slow_callback_duration = 0
    loop.call_soon(callback)
    loop.call_later(0, callback)
    with caplog.at_level(logging.WARNING):
        await eventually(lambda: len(reports(caplog)) == 2)
    loop.set_debug(False)
    assert all("Exception in callback" in report for report in reports(caplog))
    if isinstance(callback, Nameless):
        assert "Nameless object, whose repr() raised LookupError>" in reports(caplog)[0]


async def test_a_handle_has_a_repr(loop, unhandled):
    handle = loop.call_later(3600, Nameless())
    assert "whose repr() raised LookupError>" in repr(handle)
    handle.cancel()


async def test_protocols(loop, caplog):
    loop.set_exception_handler(None)
    near, far = socket.socketpair()
    with far:
        await loop.create_connection(Nameless, sock=near)
        far.send(b"x")
        with caplog.at_level(logging.ERROR):
            await eventually(lambda: reports(caplog))
    assert "whose repr() raised LookupError>" in reports(caplog)[0]


async def test_a_handler_that_blocks(loop, unhandled, caplog):
    loop.set_blocking_threshold(0.001)
    loop.call_soon(functools.partial(Nameless(0.01)))
    loop.call_soon(functools.partial(WithoutQualname()))
    await eventually(lambda: len(unhandled) == 2)
    loop.set_blocking_threshold(None)
    assert [type(context["exception"]) for context in unhandled] == [OursError] * 2
    unhandled.clear()
    assert "Nameless() at" in caplog.text
