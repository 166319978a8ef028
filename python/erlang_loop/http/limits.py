"""What a client may take of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    #: Of the request line and all headers; more is answered with 431.
    header_size: int = 16_384
    #: Of a request's body; more is answered with 413.
    body_size: int = 1_048_576
    #: At the same time; more wait in the system's queue until one has ended.
    connections: int = 1000
    #: Without any request, or without reading what was sent: then the connection is closed.
    idle_time: float = 60.0
    #: From a request's first byte to its last; then it is answered with 408.
    request_time: float = 60.0
    #: For a client to take in the last answer before the connection is closed for good.
    linger_time: float = 2.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
