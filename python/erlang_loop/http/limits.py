"""Limits for what one client may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    #: Of the request line and all headers; more is refused with 431.
    header_size: int = 16_384
    #: Of a request's body; more is refused with 413.
    body_size: int = 1_048_576
    #: Simultaneous connections; more wait in the system's queue until one has ended.
    connections: int = 1000
    #: Without a request, or without reading a response: then the connection is closed.
    idle_time: float = 60.0
    #: From a request's first byte to its last; a slower one is refused with 408.
    request_time: float = 60.0
    #: For a client to read the last response before the connection is closed.
    linger_time: float = 2.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
