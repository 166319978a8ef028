"""WebSockets of ASGI: frames are native, tasks and limits here.

`WebSocket.begin` takes over a connection whose upgrade request the native engine has parsed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from erlang_loop._native import DisconnectedError, WebSocketFrames
from erlang_loop.asgi.config import Config
from erlang_loop.asgi.handshake import Handshake, RefusedError
from erlang_loop.asgi.running import EXITS, is_disconnect

logger = logging.getLogger("erlang_loop.asgi")

#: Messages that may wait for the application before the server stops reading.
MOST_WAITING = 32
#: Seconds for the client's part of the closing handshake.
CLOSE_TIME = 10.0
#: Seconds in which a client that broke the rules can read why.
LINGER_TIME = 2.0
#: Codes of close frames. NO_CODE is for one without.
NORMAL, NO_CODE, LOST, INTERNAL_ERROR, SERVICE_RESTART = 1000, 1005, 1006, 1011, 1012


class WebSocket(asyncio.Protocol):
    """One WebSocket, from its handshake to its end."""

    def __init__(self, app: Any, config: Config, ended: Callable[[WebSocket], None]) -> None:
        self.app = app
        self.config = config
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._frames: WebSocketFrames | None = None
        self._messages: deque[dict[str, Any]] = deque([{"type": "websocket.connect"}])
        self._receivers: list[asyncio.Future[None]] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._early = b""
        #: Until the application decides.
        self._handshake: Handshake | None = None
        #: The code of the close frame that was sent, and its reason.
        self._close_sent: tuple[int, str] | None = None
        self._denying = False
        self._restarts = False
        self._app_ended = False
        self._disconnect: dict[str, Any] | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._unanswered_ping: bytes | None = None
        self.task: asyncio.Task[None] | None = None
        self.transport: Any = None

    # The handshake

    def begin(self, transport: Any, scope: dict[str, Any], rest: bytes) -> None:
        """Checks the handshake; the application decides about it."""
        self.transport = transport
        transport.set_protocol(self)
        self._early = rest
        try:
            self._handshake = Handshake(scope["headers"], self.config.ws_per_message_deflate)
        except RefusedError as refused:
            self._deny(refused.status, refused.headers)
            transport.close()
            return
        scope["extensions"] = {"websocket.http.response": {}}
        self.task = self._loop.create_task(self._run(scope))

    def _accept(self, message: dict[str, Any]) -> None:
        handshake = self._handshake
        assert handshake is not None
        response = handshake.response(message.get("subprotocol"), message.get("headers") or ())
        self._handshake = None
        self._frames = WebSocketFrames(self.config.ws_max_size, handshake.deflate)
        self.transport.write(response)
        self._ping_later()
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        if self._restarts:
            self.restart()

    def _deny(self, status: int, headers: Any = (), text: bytes = b"") -> None:
        """Responds with HTTP instead of opening the WebSocket."""
        self._handshake = None
        lines = [b"HTTP/1.1 %d \r\n" % status, b"connection: close\r\n"]
        for name, value in headers:
            if any(byte in b"\r\n\0" for byte in name + value):
                raise ValueError("invalid response header")
            lines.append(name + b": " + value + b"\r\n")
        if text:
            lines.append(b"content-length: %d\r\n" % len(text))
        self.transport.write(b"".join([*lines, b"\r\n", text]))

    # What the application does

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self.app(scope, self.receive, self.send)
        except asyncio.CancelledError:
            self._finish(500, INTERNAL_ERROR)
            raise
        except (Exception, *EXITS) as error:
            over = self._disconnect is not None or self._close_sent is not None
            if not (over and is_disconnect(error)):
                logger.exception("Exception in the ASGI application, WebSocket %s", scope["path"])
            self._finish(500, INTERNAL_ERROR)
        else:
            # Without a decision there is no WebSocket.
            if self._handshake is not None and self._disconnect is None:
                text = "The ASGI application returned without accepting or closing, WebSocket %s"
                logger.error(text, scope["path"])
            self._finish(500, NORMAL)

    def _finish(self, status: int, code: int) -> None:
        """The application has ended."""
        self._app_ended = True
        self._messages.clear()
        if self._paused:
            # The client's part of the closing handshake is behind what was not received.
            self._paused = False
            self.transport.resume_reading()
        if self._disconnect is not None:
            return
        if self._handshake is not None:
            self._deny(status, [(b"content-type", b"text/plain")], b"Internal Server Error")
            self.transport.close()
        elif self._denying:
            self.transport.close()
        else:
            self.close(code)

    async def receive(self) -> dict[str, Any]:
        """The next message; the last one is `websocket.disconnect`, as often as it is asked for."""
        while not self._messages:
            if self._disconnect is not None:
                return self._disconnect
            receiver = self._loop.create_future()
            self._receivers.append(receiver)
            await receiver
        message = self._messages.popleft()
        if self._paused and len(self._messages) <= MOST_WAITING // 2:
            self._paused = False
            self.transport.resume_reading()
        return message

    async def send(self, message: dict[str, Any]) -> None:
        """Sends a message, and waits while the client reads slowly."""
        kind = message["type"]
        if self._disconnect is not None:
            raise DisconnectedError("the WebSocket is closed")
        if self._handshake is not None:
            self._decide(kind, message)
        elif self._denying:
            self._continue_denial(kind, message)
        elif kind == "websocket.send":
            self._send(message)
        elif kind == "websocket.close":
            self.close(message.get("code") or NORMAL, message.get("reason") or "")
        else:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}, the WebSocket is open")
        if not self._writable.is_set():
            await self._writable.wait()

    def _decide(self, kind: str, message: dict[str, Any]) -> None:
        if kind == "websocket.accept":
            self._accept(message)
        elif kind == "websocket.close":
            self._deny(403, [(b"content-length", b"0")])
            self._denying = True
            self._disconnected(LOST, "")
            self.transport.close()
        elif kind == "websocket.http.response.start":
            self._deny(message["status"], message.get("headers") or ())
            self._denying = True
        else:
            raise RuntimeError(f"Expected ASGI message 'websocket.accept', but got {kind!r}")

    def _continue_denial(self, kind: str, message: dict[str, Any]) -> None:
        if kind != "websocket.http.response.body":
            raise RuntimeError(f"Expected 'websocket.http.response.body', but got {kind!r}")
        self.transport.write(message.get("body", b""))
        if not message.get("more_body", False):
            self._disconnected(LOST, "")
            self.transport.close()

    def _send(self, message: dict[str, Any]) -> None:
        text, data = message.get("text"), message.get("bytes")
        if (text is None) == (data is None):
            raise ValueError("websocket.send needs either 'text' or 'bytes'")
        if self._close_sent is not None:
            # There is nothing more to say.
            raise DisconnectedError("the WebSocket is closing")
        assert self._frames is not None
        self.transport.write(self._frames.message(data if text is None else text))

    def close(self, code: int, reason: str = "") -> None:
        """Begins the closing handshake; the client has some seconds for its part."""
        if self._close_sent is None and self._disconnect is None:
            self._write_close(code, reason)
            self._set_timer(CLOSE_TIME, self.transport.abort)

    def _write_close(self, code: int, reason: str) -> None:
        assert self._frames is not None
        self.transport.write(self._frames.close(code, reason))
        self._close_sent = (code, reason)

    def restart(self) -> None:
        """The server ends or is replaced: 1012, at once or after the handshake."""
        self._restarts = True
        if self._frames is not None:
            self.close(SERVICE_RESTART)

    def abort(self) -> None:
        """Ends at once."""
        if self.task is not None:
            self.task.cancel()
        self.transport.abort()

    # What the client does

    def data_received(self, data: bytes) -> None:
        if self._frames is None:
            # Clients send nothing before the handshake is complete.
            self._early += data
            if len(self._early) > 64 * 1024:
                self.transport.abort()
            return
        for event in self._frames.receive(data):
            if isinstance(event, str):
                self._arrived({"type": "websocket.receive", "text": event, "bytes": None})
            elif isinstance(event, bytes):
                self._arrived({"type": "websocket.receive", "text": None, "bytes": event})
            else:
                self._control(*event)
        if len(self._messages) > MOST_WAITING and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _arrived(self, message: dict[str, Any]) -> None:
        if not self._app_ended:
            self._messages.append(message)
            self._wake()

    def _wake(self) -> None:
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            if not receiver.done():
                receiver.set_result(None)

    def _control(self, kind: str, detail: Any, reason: str = "") -> None:
        assert self._frames is not None
        if kind == "ping":
            if self._close_sent is None:
                self.transport.write(self._frames.pong(detail))
        elif kind == "pong":
            if detail == self._unanswered_ping:
                self._unanswered_ping = None
        elif kind == "close":
            self._disconnected(detail, reason)
            if self._close_sent is None:
                self._write_close(detail, "")
            self.transport.close()
        else:
            self._fail(detail, reason)

    def _fail(self, code: int, reason: str) -> None:
        """The client broke the rules. It can read why: unread data would reset the connection."""
        self._disconnected(code, reason)
        if self._close_sent is None:
            self._write_close(code, reason)
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._set_timer(LINGER_TIME, self.transport.abort)
        else:
            self.transport.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._set_timer(0, None)
        self._writable.set()
        self._disconnected(*(self._close_sent or (LOST, "")))
        if self.task is None or self.task.done():
            self._ended(self)
        else:
            # It still has to receive the end, and to clean up.
            self.task.add_done_callback(lambda _: self._ended(self))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _disconnected(self, code: int, reason: str) -> None:
        if self._disconnect is None:
            self._disconnect = {
                "type": "websocket.disconnect",
                "code": code,
                "reason": reason,
            }
            self._wake()

    # Pings

    def _ping_later(self) -> None:
        if self.config.ws_ping_interval:
            self._set_timer(self.config.ws_ping_interval, self._ping)

    def _ping(self) -> None:
        if self._close_sent is not None:
            return
        assert self._frames is not None
        self._unanswered_ping = b"%d" % int(self._loop.time() * 1000)
        self.transport.write(self._frames.ping(self._unanswered_ping))
        if self.config.ws_ping_timeout:
            self._set_timer(self.config.ws_ping_timeout, self._check_pong)
        else:
            self._ping_later()

    def _check_pong(self) -> None:
        if self._unanswered_ping is None:
            self._ping_later()
        elif self._close_sent is None:
            self._write_close(INTERNAL_ERROR, "no pong in time")
            self._disconnected(LOST, "no pong in time")
            # A client that does not reply to a ping replies to nothing else.
            self.transport.abort()

    def _set_timer(self, delay: float, callback: Callable[[], None] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if callback is None else self._loop.call_later(delay, callback)
