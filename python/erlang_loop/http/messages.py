"""The arguments of a handler: the request and the response."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from .connection import Connection

Text = str | bytes
_WITHOUT_BODY = (204, 304)
Headers = Iterable["tuple[Text, Text]"]


@dataclass(frozen=True)
class Request:
    """A complete request."""

    method: str
    #: As the client sent it.
    target: str
    http_version: str
    #: Names in lower case, in the order they were sent.
    headers: list[tuple[str, str]]
    body: bytes
    #: The client's address.
    address: Any = field(compare=False)

    @property
    def path(self) -> str:
        """The target's path, unquoted and without the query."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> str:
        return urlsplit(self.target).query

    def header(self, name: str) -> str | None:
        """The first header of this name, in any case."""
        return next((value for key, value in self.headers if key == name.lower()), None)


class Response:
    """The response to one request: `send` it, or `begin`, `write` and `end` it, now or later."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._begun = False
        self._ended = False
        self._drained: Callable[[], object] | None = None

    @property
    def gone(self) -> bool:
        """Whether the client has disconnected: further writes are discarded."""
        return self._connection.response is not self

    def send(self, body: Text = b"", *, status: int = 200, headers: Headers = ()) -> None:
        """Send the whole response. Text is sent as UTF-8."""
        data = body.encode() if isinstance(body, str) else bytes(body)
        listed = list(headers)
        if status in _WITHOUT_BODY:
            if data:
                raise ValueError(f"a response with status {status} has no body")
        elif not any(as_bytes(name).lower() == b"content-length" for name, _ in listed):
            listed.append(("content-length", str(len(data))))
        self.begin(status, listed)
        self.write(data)
        self.end()

    def begin(self, status: int = 200, headers: Headers = ()) -> None:
        """Send status and headers. Without a content-length the body is sent in chunks."""
        self._check(begun=False)
        self._begun = True
        if not self.gone:
            self._connection.send_head(status, headers)

    def write(self, data: Text) -> bool:
        """Send a part of the body. False: wait for `on_drain`, or the client is gone."""
        if not self._begun:
            self.begin()
        self._check(begun=True)
        if self.gone:
            return False
        return self._connection.send_body(data.encode() if isinstance(data, str) else data)

    def end(self) -> None:
        """End the response."""
        if not self._begun:
            self.begin()
        self._check(begun=True)
        self._ended = True
        if not self.gone:
            self._connection.end_response()

    def on_drain(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the written data has been sent, or the client is gone."""
        self._drained = callback
        self._connection.call_if_drained(self)

    def _check(self, begun: bool) -> None:
        if self._ended:
            raise RuntimeError("the response has ended")
        if self._begun != begun:
            raise RuntimeError("the response has begun")


def as_bytes(text: Text) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else text


def reason(status: int) -> bytes:
    """The reason phrase of a status; empty if there is none."""
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b""
