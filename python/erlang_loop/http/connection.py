"""One client: a state machine driven by events of its socket and of its handler."""

from __future__ import annotations

import enum
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import h11

from .messages import Request, Response, Text, as_bytes, reason
from .output import Output

if TYPE_CHECKING:
    from .server import HttpServer

#: Requests of one client that are handled before other clients get their turn.
_IN_A_ROW = 16
_READ_SIZE = 65_536


class State(enum.Enum):
    WAITING_FOR_REQUEST = "waiting for request"
    READING_HEADERS = "reading headers"
    READING_BODY = "reading body"
    PROCESSING = "processing request"
    WRITING_RESPONSE = "writing response"
    #: The last response was sent: the client has some time to read it.
    LINGERING = "lingering"
    CLOSED = "closed"


_READING = (State.WAITING_FOR_REQUEST, State.READING_HEADERS, State.READING_BODY)


class Connection:
    """A client's connection. Errors of the client do not propagate beyond it."""

    def __init__(self, server: HttpServer, sock: socket.socket, address: Any) -> None:
        self._server = server
        self._loop = server.loop
        self._limits = server.limits
        self._sock = sock
        self._address = address
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.header_size)
        self._output = Output(self._loop, sock, self)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._closing = False
        self._advancing = False
        self._resuming = False
        self._half_closed = False
        self._reads = True
        self._without_body = False
        self.response: Response | None = None
        self.state = State.WAITING_FOR_REQUEST
        self._deadline = self._loop.time() + self._limits.idle_time
        self._timer = self._loop.call_later(self._limits.idle_time, self._look_at_time)
        self._loop.add_reader(sock, self._readable, on_error=self._failed)

    # ---- reading ----

    def _readable(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.lost(error)
            return
        if self.state is State.LINGERING:
            if not data:
                self.close()
            return
        if self.state is State.WAITING_FOR_REQUEST and data:
            self._enter(State.READING_HEADERS, self._limits.request_time)
        self._http.receive_data(data)
        self._advance()

    def _advance(self) -> None:
        """Handle the received requests, as long as the client reads the responses."""
        if self._advancing:
            return
        self._advancing = True
        answered = 0
        try:
            while self.state in _READING and not self._output.full:
                if answered == _IN_A_ROW:
                    self._resuming = True
                    self._loop.call_soon(self._resume)
                    break
                if not self._take_event():
                    break
                answered += self._head is None
        finally:
            self._advancing = False
        self._flush()
        self._watch()

    def _resume(self) -> None:
        self._resuming = False
        self._advance()

    def _take_event(self) -> bool:
        """Return False if more has to be read first."""
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)
            return False
        if event is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                self._output.add(self._http.send(go_on) or b"")
            return False
        if isinstance(event, h11.Request):
            return self._begin_request(event)
        if isinstance(event, h11.Data):
            self._body += event.data
            if len(self._body) > self._limits.body_size:
                self._refuse(413)
                return False
        elif isinstance(event, h11.EndOfMessage):
            self._handle()
        else:
            # The client has closed its end, or another request cycle has to begin first.
            if event is not h11.PAUSED:
                self.close()
            return False
        return True

    def _begin_request(self, head: h11.Request) -> bool:
        size = len(head.method) + len(head.target) + 12
        size += sum(len(name) + len(value) + 4 for name, value in head.headers)
        if size > self._limits.header_size:
            self._refuse(431)
            return False
        for name, value in head.headers:
            if name == b"content-length" and int(value) > self._limits.body_size:
                self._refuse(413)
                return False
        self._head = head
        if self.state is State.WAITING_FOR_REQUEST:
            self._enter(State.READING_BODY, self._limits.request_time)
        else:
            self.state = State.READING_BODY
        return True

    def _handle(self) -> None:
        head, body = self._head, bytes(self._body)
        assert head is not None
        self._head = None
        self._body.clear()
        self._enter(State.PROCESSING, None)
        request = Request(
            head.method.decode("ascii"),
            head.target.decode("latin-1"),
            head.http_version.decode("ascii"),
            [(name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers],
            body,
            self._address,
        )
        self._without_body = request.method == "HEAD"
        response = self.response = Response(self)
        try:
            self._server.handler(request, response)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._server.report(f"Exception in the handler of {request.method}", error)
            if self.response is response:
                self._refuse(500)

    # ---- responding: called by Response ----

    def send_head(self, status: int, headers: Iterable[tuple[Text, Text]]) -> None:
        listed = [(as_bytes(name), as_bytes(value)) for name, value in headers]
        if self._closing:
            listed.append((b"connection", b"close"))
        head = h11.Response(status_code=status, headers=listed, reason=reason(status))
        self._output.add(self._http.send(head) or b"")
        self._enter(State.WRITING_RESPONSE, self._limits.idle_time)
        self._flush()

    def send_body(self, data: bytes) -> bool:
        if data and not self._without_body:
            self._output.add(self._http.send(h11.Data(data=data)) or b"")
            self._deadline = self._loop.time() + self._limits.idle_time
            self._flush()
        return not self._output.full

    def end_response(self) -> None:
        self._output.add(self._http.send(h11.EndOfMessage()) or b"")
        self.response = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._enter(State.WAITING_FOR_REQUEST, self._limits.idle_time)
            # Pipelined requests are handled by the caller of the first one.
            self._advance()
        else:
            self._linger()

    def call_if_drained(self, response: Response) -> None:
        if response.gone or self._output.empty:
            self._tell_drained(response)

    # ---- closing ----

    def finish(self) -> None:
        """The server shuts down: close after the current response, if there is one."""
        self._closing = True
        if self.state in (State.WAITING_FOR_REQUEST, State.READING_HEADERS, State.READING_BODY):
            self.close()

    def close(self) -> None:
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        response, self.response = self.response, None
        self._timer.cancel()
        self._output.clear()
        self._loop.remove_fd(self._sock)
        self._sock.close()
        self._server.forget(self)
        if response is not None:
            self._tell_drained(response)

    def _refuse(self, status: int) -> None:
        """Send an error and close the connection."""
        self.response = None
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = b"%d %b\n" % (status, reason(status))
            head = h11.Response(
                status_code=status,
                headers=[
                    ("content-type", "text/plain"),
                    ("content-length", str(len(text))),
                    ("connection", "close"),
                ],
                reason=reason(status),
            )
            for event in (head, h11.Data(data=text), h11.EndOfMessage()):
                self._output.add(self._http.send(event) or b"")
        # Otherwise a response had begun: only an abort can signal the error.
        self._linger()

    def _linger(self) -> None:
        """Closing with unread data would send a reset: the client could lose the response."""
        if self.state is State.CLOSED:
            return
        self._enter(State.LINGERING, self._limits.linger_time)
        self._flush()
        self._watch()

    def _half_close(self) -> None:
        if self._half_closed:
            return
        self._half_closed = True
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    # ---- called by Output ----

    def progress(self) -> None:
        """The client is reading what was sent."""
        if self.state is State.WRITING_RESPONSE:
            self._deadline = self._loop.time() + self._limits.idle_time

    def drained(self) -> None:
        if self.state is State.LINGERING:
            self._half_close()
            return
        if self.response is not None:
            self._tell_drained(self.response)
        self._advance()

    def _tell_drained(self, response: Response) -> None:
        callback, response._drained = response._drained, None
        if callback is not None:
            self._loop.call_soon(callback)

    def lost(self, _error: OSError) -> None:
        """The network or the client ended the connection, which is not an error."""
        self.close()

    def _failed(self, _sock: socket.socket, _error: BaseException) -> None:
        """An exception in this module or in the handler; the loop has reported it."""
        self.close()

    # ---- watching and time ----

    def _flush(self) -> None:
        # While requests are being handled, all responses are sent together at the end.
        if self._advancing:
            return
        self._output.flush()
        if not self._output.empty:
            return
        if self.state is State.LINGERING:
            self._half_close()
        elif self.response is not None:
            self._tell_drained(self.response)

    def _takes_requests(self) -> bool:
        return self.state in _READING and not self._output.full and not self._resuming

    def _watch(self) -> None:
        """Watch for reading only while requests can be handled."""
        if self.state is State.CLOSED:
            return
        wanted = self.state is State.LINGERING or (self._takes_requests())
        if wanted != self._reads:
            self._reads = wanted
            if wanted:
                self._loop.add_reader(self._sock, self._readable, on_error=self._failed)
            else:
                self._loop.remove_reader(self._sock)

    def _enter(self, state: State, limit: float | None) -> None:
        self.state = state
        self._deadline = self._loop.time() + limit if limit is not None else float("inf")
        # The connection has one timer. It checks when it fires, and is reset only to fire earlier.
        if self._deadline < self._timer.when():
            self._timer.cancel()
            self._set_timer()

    def _set_timer(self) -> None:
        latest = self._loop.time() + self._limits.idle_time
        when = min(self._deadline, latest)
        self._timer = self._loop.call_later(when - self._loop.time(), self._look_at_time)

    def _look_at_time(self) -> None:
        if self._deadline > self._loop.time():
            self._set_timer()
        elif self.state in (State.READING_HEADERS, State.READING_BODY):
            self._refuse(408)
        else:
            self.close()
