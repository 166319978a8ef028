"""Behind a proxy: the client's address and scheme, from the headers of a proxy that is trusted."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
SECURE = {"http": False, "https": True, "ws": False, "wss": True}


class TrustedProxies:
    """Addresses, networks, or "*". ValueError names what is neither."""

    def __init__(self, allowed: str | Sequence[str]) -> None:
        names = allowed.split(",") if isinstance(allowed, str) else list(allowed)
        names = [name.strip() for name in names]
        self.all = "*" in names
        self.networks = [ipaddress.ip_network(name) for name in names if name != "*"]
        self.trusts = functools.lru_cache(maxsize=4096)(self._trusts)

    def _trusts(self, host: str) -> bool:
        address = address_of(host)
        return address is not None and any(address in network for network in self.networks)

    def trusts_peer(self, scope: dict[str, Any]) -> bool:
        """Of a Unix socket every peer is trusted: the path's permissions decide who may connect."""
        server, client = scope["server"], scope["client"]
        if self.all or (server is not None and server[1] is None):
            return True
        return client is not None and self.trusts(client[0])

    def client(self, forwarded: str) -> tuple[str, int] | None:
        """The last address that is not a trusted proxy: those before it can be invented."""
        entries = forwarded.split(",")
        if self.all:
            return host_and_port(entries[0])
        client = None
        for entry in reversed(entries):
            found = host_and_port(entry)
            if found is None:
                # "unknown", or not an address: nothing before it can be trusted.
                break
            client = found
            if not self.trusts(found[0]):
                break
        return client


def address_of(host: str) -> Address | None:
    """An IPv4 address that was mapped to IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def host_and_port(entry: str) -> tuple[str, int] | None:
    """Of `1.2.3.4`, `1.2.3.4:80`, `::1` and `[::1]:80`. Without a port it is 0."""
    host, port = entry.strip(), ""
    if host.startswith("["):
        host, _, rest = host[1:].partition("]")
        if rest and not rest.startswith(":"):
            return None
        port = rest[1:]
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    port = port or "0"
    if address_of(host) is None or not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return None
    return (host, int(port)) if int(port) < 65536 else None


def behind_proxies(app: Any, trusted: TrustedProxies) -> Any:
    """The application with scopes that describe the client instead of the proxy."""

    def forwarded(scope: dict[str, Any], receive: Any, send: Any) -> Any:
        if scope["type"] != "lifespan" and trusted.trusts_peer(scope):
            describe_client(scope, trusted)
        return app(scope, receive, send)

    return forwarded


def describe_client(scope: dict[str, Any], trusted: TrustedProxies) -> None:
    """`X-Forwarded-For` and the last `X-Forwarded-Proto`."""
    scheme, hosts = "", []
    for name, value in scope["headers"]:
        if name == b"x-forwarded-proto":
            scheme = value.decode("latin-1").strip().lower()
        elif name == b"x-forwarded-for":
            hosts.append(value.decode("latin-1"))
    if scheme in SECURE:
        protocol = "ws" if scope["type"] == "websocket" else "http"
        scope["scheme"] = protocol + "s" * SECURE[scheme]
    if hosts and (client := trusted.client(",".join(hosts))) is not None:
        scope["client"] = client
