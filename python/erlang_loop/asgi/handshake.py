"""The opening handshake of a WebSocket: RFC 6455, and permessage-deflate of RFC 7692."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable

Headers = Iterable[tuple[bytes, bytes]]

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: Of the server's window for compression: 4 KiB, as long messages are rare.
WINDOW_BITS = 12
SEPARATORS = frozenset(b'()<>@,;:\\"/[]?={} \t')


class RefusedError(Exception):
    """The request opens no WebSocket: the status, and headers of the response."""

    def __init__(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = (*headers, (b"content-length", b"0"))


class Handshake:
    """A request for a WebSocket, and the response to it."""

    def __init__(self, headers: Headers, allows_deflate: bool) -> None:
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            found.setdefault(name, []).append(value)
        if found.get(b"sec-websocket-version") != [b"13"]:
            raise RefusedError(426, (b"sec-websocket-version", b"13"))
        keys = found.get(b"sec-websocket-key", [])
        if len(keys) != 1 or not is_key(keys[0]):
            raise RefusedError(400)
        self._key = keys[0]
        #: Whether the server forgets the messages before, whether the client does, and the bits of
        #: the server's window.
        self.deflate: tuple[bool, bool, int] | None = None
        self._extension = b""
        if allows_deflate:
            self._negotiate(b",".join(found.get(b"sec-websocket-extensions", [])))

    def _negotiate(self, offers: bytes) -> None:
        """Takes the first offer of permessage-deflate that it can."""
        for offer in offers.split(b","):
            name, *parameters = (part.strip() for part in offer.split(b";"))
            if name.lower() != b"permessage-deflate":
                continue
            values = parameters_of(parameters)
            if values is None:
                continue
            forgets = "server_no_context_takeover" in values
            client_forgets = "client_no_context_takeover" in values
            bits = min(int(values.get("server_max_window_bits") or WINDOW_BITS), WINDOW_BITS)
            self.deflate = (forgets, client_forgets, bits)
            self._extension = b"permessage-deflate; server_max_window_bits=%d" % bits
            if forgets:
                self._extension += b"; server_no_context_takeover"
            if client_forgets:
                self._extension += b"; client_no_context_takeover"
            return

    def response(self, subprotocol: str | None, headers: Headers) -> bytes:
        """The response that opens it; ValueError if the application's part is invalid."""
        accept = base64.b64encode(hashlib.sha1(self._key + MAGIC).digest())
        lines = [
            b"HTTP/1.1 101 Switching Protocols",
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Accept: " + accept,
        ]
        if self._extension:
            lines.append(b"Sec-WebSocket-Extensions: " + self._extension)
        if subprotocol is not None:
            if not is_token(subprotocol.encode()):
                raise ValueError("invalid subprotocol")
            lines.append(b"Sec-WebSocket-Protocol: " + subprotocol.encode())
        for name, value in headers:
            if not is_token(bytes(name)) or any(byte in b"\r\n\0" for byte in value):
                raise ValueError("invalid response header")
            lines.append(bytes(name) + b": " + bytes(value))
        return b"\r\n".join([*lines, b"\r\n"])


def is_key(key: bytes) -> bool:
    """16 bytes in base64."""
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False


def is_token(text: bytes) -> bool:
    return text != b"" and all(32 < byte < 127 and byte not in SEPARATORS for byte in text)


def parameters_of(parts: Iterable[bytes]) -> dict[str, str] | None:
    """Those of an offer of permessage-deflate; None if it cannot be accepted."""
    values: dict[str, str] = {}
    for part in parts:
        name, has_value, value = part.decode("latin-1").partition("=")
        name, value = name.strip().lower(), value.strip().strip('"')
        if name in values:
            return None
        if name in ("server_no_context_takeover", "client_no_context_takeover"):
            valid = not has_value
        elif name == "server_max_window_bits":
            # zlib has no window of 8 bits.
            valid = value in ("9", "10", "11", "12", "13", "14", "15")
        elif name == "client_max_window_bits":
            valid = not has_value or value in ("8", "9", "10", "11", "12", "13", "14", "15")
        else:
            valid = False
        if not valid:
            return None
        values[name] = value
    return values
