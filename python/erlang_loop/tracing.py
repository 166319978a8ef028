"""The trace that code belongs to, as the header `traceparent` of the W3C.

A request of an Erlang process that has a trace (`py_trace`) runs in that trace: `traceparent`
returns it, and if OpenTelemetry is loaded, spans that its code starts are children of the caller's
span. What this code calls in Erlang has the trace of the span that Python is in.
"""

from __future__ import annotations

import sys

from . import _native

__all__ = ["propagate", "traceparent"]


def traceparent() -> str | None:
    """The header of the current span of OpenTelemetry, or else of the calling Erlang process."""
    return _of_span() or _native._caller_trace()


def propagate() -> None:
    """Let calls to Erlang carry the current span, in a program whose traces begin in Python.

    Otherwise they do so from the first request on that has a trace.
    """
    _native._begin_traces()


def _of_span() -> str | None:
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _begin(header: str) -> None:
    """A request begins in its own context (native/py_nif/src/asyncio/origin.rs)."""
    if "opentelemetry.trace" not in sys.modules:
        return
    from opentelemetry.context import attach
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    attach(TraceContextTextMapPropagator().extract({"traceparent": header}))
