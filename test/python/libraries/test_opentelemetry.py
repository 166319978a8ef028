"""OpenTelemetry: spans of Python and of Erlang's callers are in one trace.

The SDK is the real one. Erlang passes the trace on: a span calls Erlang, which calls Python.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType

import erlang
import pytest
from erlang_loop import tracing
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

pytestmark = pytest.mark.ours

_exporter = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_exporter))
_tracer = _provider.get_tracer(__name__)


async def works(name: str) -> str:
    with _tracer.start_as_current_span(name):
        await asyncio.sleep(0)
        return tracing.traceparent() or ""


def computes(name: str) -> str:
    with _tracer.start_as_current_span(name):
        return tracing.traceparent() or ""


@pytest.fixture(autouse=True, scope="module")
def default_loop() -> None:
    """It runs what Erlang calls, and stays."""
    assert erlang.call("py", "call", ["asyncio", "sleep", [0]])[0] == "ok"


@pytest.fixture(autouse=True)
def module() -> Iterator[None]:
    """This module under a name for Erlang, with no spans so far."""
    found = ModuleType("traced")
    found.__dict__.update(works=works, computes=computes)
    sys.modules["traced"] = found
    tracing.propagate()
    _exporter.clear()
    yield
    del sys.modules["traced"]


def spans() -> dict[str, ReadableSpan]:
    return {span.name: span for span in _exporter.get_finished_spans()}


async def test_spans_beyond_erlang_are_children(loop: asyncio.AbstractEventLoop) -> None:
    with _tracer.start_as_current_span("caller"):
        for function in ("works", "computes"):
            args = ["traced", function, [function]]
            result = await erlang.async_call("py", "call", args)
            assert result[0] == "ok"
    found = spans()
    caller = found["caller"].get_span_context()
    assert caller is not None
    for function in ("works", "computes"):
        parent, context = found[function].parent, found[function].get_span_context()
        assert parent is not None
        assert context is not None
        assert (parent.trace_id, parent.span_id) == (caller.trace_id, caller.span_id)
        assert parent.is_remote
        assert context.trace_id == caller.trace_id


async def test_erlang_has_the_innermost_span(loop: asyncio.AbstractEventLoop) -> None:
    with _tracer.start_as_current_span("outer"), _tracer.start_as_current_span("inner") as inner:
        header = await erlang.async_call("py_trace", "current")
        blocking = await asyncio.to_thread(erlang.call, "py_trace", "current")
    context = inner.get_span_context()
    assert header == blocking
    assert header.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


async def test_without_a_span_there_is_no_trace(loop: asyncio.AbstractEventLoop) -> None:
    assert not trace.get_current_span().get_span_context().is_valid
    assert tracing.traceparent() is None
    assert await erlang.async_call("py_trace", "current") is None


async def test_requests_side_by_side_keep_their_spans(loop: asyncio.AbstractEventLoop) -> None:
    async def one(number: int) -> None:
        with _tracer.start_as_current_span(f"caller {number}") as span:
            name = f"works {number}"
            ok, header = await erlang.async_call("py", "call", ["traced", "works", [name]])
        assert ok == "ok"
        assert f"{span.get_span_context().trace_id:032x}" in header

    await asyncio.gather(*map(one, range(50)))
