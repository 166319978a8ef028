"""The options of a server. Names are those of uvicorn where they mean the same."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from erlang_loop.asgi.proxies import TrustedProxies

LIFESPANS = ("auto", "on", "off")
LOCAL = ("127.0.0.1", "::1")


class ConfigError(ValueError):
    """An option has a value that it cannot have."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The options of one server. Times are in seconds, sizes in bytes; 0 is no limit."""

    root_path: str = ""
    #: The client's address and scheme come from the headers of trusted proxies.
    proxy_headers: bool = False
    #: Addresses and networks of these proxies, or "*"; None: this machine.
    forwarded_allow_ips: str | Sequence[str] | None = None
    #: Each connection begins with the PROXY protocol, version 1 or 2.
    proxy_protocol: bool = False
    lifespan: str = "auto"
    access_log: bool = False
    #: Below a supervisor 25, which is `notice` in Erlang and so is shown.
    access_log_level: int = logging.INFO
    server_header: bool = True
    date_header: bool = True
    #: More headers of every response.
    headers: Sequence[tuple[str, str]] = ()
    backlog: int = 2048
    #: Requests at a time; more get 503.
    limit_concurrency: int = 0
    #: The server drains after this number of requests.
    limit_max_requests: int = 0
    limit_request_head: int = 64 * 1024
    limit_request_body: int = 0
    timeout_keep_alive: int = 5
    timeout_request_head: int = 30
    timeout_graceful_shutdown: float = 30.0
    #: How long a request may go on after its client has gone; None: as long as it likes.
    timeout_disconnect: int | None = None
    #: Of a WebSocket's message.
    ws_max_size: int = 16 * 1024 * 1024
    ws_ping_interval: float = 20.0
    ws_ping_timeout: float = 20.0
    ws_per_message_deflate: bool = True
    ssl: ssl.SSLContext | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.lifespan not in LIFESPANS:
            raise ConfigError(f"lifespan must be one of {', '.join(LIFESPANS)}")
        if self.root_path and not self.root_path.startswith("/"):
            raise ConfigError("root_path must begin with a slash")
        if self.forwarded_allow_ips is not None and not self.proxy_headers:
            raise ConfigError("forwarded_allow_ips needs proxy_headers")
        if self.proxy_protocol and self.ssl is not None:
            raise ConfigError("proxy_protocol and ssl cannot be combined: let the proxy end TLS")
        try:
            _ = self.trusted_proxies
        except (TypeError, ValueError) as error:
            raise ConfigError(f"forwarded_allow_ips: {error}") from None
        for name in NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ConfigError(f"{name} must be a number that is not negative")
        if self.limit_request_head < 256:
            raise ConfigError("limit_request_head must be at least 256")
        for name, value in self.headers:
            if not name or any(c in "\r\n\0" for c in name + value):
                raise ConfigError(f"invalid header {name!r}")

    @property
    def trusted_proxies(self) -> TrustedProxies | None:
        """The proxies whose headers are read, if there are any."""
        if not self.proxy_headers:
            return None
        allowed = self.forwarded_allow_ips
        return TrustedProxies(LOCAL if allowed is None else allowed)

    @property
    def default_headers(self) -> bytes:
        """Header lines of every response."""
        server = [("server", "erlang-loop")] if self.server_header else []
        lines = [f"{name}: {value}\r\n" for name, value in [*server, *self.headers]]
        return "".join(lines).encode("latin-1")


NUMBERS = (
    "backlog",
    "limit_concurrency",
    "limit_max_requests",
    "limit_request_head",
    "limit_request_body",
    "timeout_keep_alive",
    "timeout_request_head",
    "timeout_graceful_shutdown",
    "ws_max_size",
    "ws_ping_interval",
    "ws_ping_timeout",
)
NAMES = frozenset(option.name for option in fields(Config))


def from_options(options: dict[str, Any]) -> Config:
    """A Config of options by name; ConfigError names unknown ones."""
    unknown = sorted(set(options) - NAMES)
    if unknown:
        raise ConfigError(f"unknown options: {', '.join(unknown)}")
    return Config(**options)
