"""WebSockets of ASGI: frames by the sans-I/O core of the package websockets, tasks and limits here.

`WebSocket.begin` takes over a connection whose upgrade request the native engine has parsed.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from websockets.exceptions import InvalidState
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from erlang_loop._native import DisconnectedError
from erlang_loop.asgi.config import Config
from erlang_loop.asgi.running import is_disconnect

logger = logging.getLogger("erlang_loop.asgi")
#: The core reports every connection.
core_logger = logging.getLogger("erlang_loop.asgi.websocket")
core_logger.setLevel(logging.WARNING)

#: Messages that may wait for the application before the server stops reading.
MOST_WAITING = 32
#: Seconds for the client's part of the closing handshake.
CLOSE_TIME = 10.0
#: The headers that belong to the handshake; others may be longer than the core accepts.
HANDSHAKE = (b"host", b"upgrade", b"connection", b"origin")
#: Without a close frame, and with one that has no code.
NO_CODE = 1005


class WebSocket(asyncio.Protocol):
    """One WebSocket, from its handshake to its end."""

    def __init__(self, app: Any, config: Config, ended: Callable[[WebSocket], None]) -> None:
        self.app = app
        self.config = config
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        deflate = [ServerPerMessageDeflateFactory()] if config.ws_per_message_deflate else None
        self._core = ServerProtocol(
            extensions=deflate,
            max_size=config.ws_max_size or None,
            logger=core_logger,
        )
        self._messages: deque[dict[str, Any]] = deque([{"type": "websocket.connect"}])
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._early = b""
        self._parts: list[bytes] = []
        self._opcode = Opcode.CONT
        self._accepted: Response | None = None
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
        head = b"GET / HTTP/1.1\r\n"
        for name, value in scope["headers"]:
            if name in HANDSHAKE or name.startswith(b"sec-websocket-"):
                head += name + b": " + value + b"\r\n"
        self._core.receive_data(head + b"\r\n")
        (request,) = self._core.events_received()
        assert isinstance(request, Request)
        if request.headers.get_all("Sec-WebSocket-Version") != ["13"]:
            self._deny(426, [(b"sec-websocket-version", b"13"), (b"content-length", b"0")])
            transport.close()
            return
        response = self._core.accept(request)
        if response.status_code != 101:
            self._core.send_response(response)
            self._flush()
            transport.close()
            return
        self._accepted = response
        scope["extensions"] = {"websocket.http.response": {}}
        self.task = self._loop.create_task(self._run(scope))

    def _accept(self, message: dict[str, Any]) -> None:
        response = self._accepted
        assert response is not None
        subprotocol = message.get("subprotocol")
        if subprotocol is not None:
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        for name, value in message.get("headers") or ():
            text = bytes(value).decode("latin-1")
            if any(character in "\r\n\0" for character in text):
                raise ValueError("invalid value of a response header")
            response.headers[bytes(name).decode("ascii")] = text
        self._accepted = None
        self._core.send_response(response)
        self._flush()
        self._ping_later()
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        if self._restarts:
            self.restart()

    def _deny(self, status: int, headers: Any = (), text: bytes = b"") -> None:
        """Responds with HTTP instead of opening the WebSocket."""
        self._accepted = None
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
            self._finish(500, CloseCode.INTERNAL_ERROR)
            raise
        except Exception as error:
            if not (self._disconnect and is_disconnect(error)):
                logger.exception("Exception in the ASGI application, WebSocket %s", scope["path"])
            self._finish(500, CloseCode.INTERNAL_ERROR)
        else:
            # Without a decision there is no WebSocket.
            if self._accepted is not None and self._disconnect is None:
                text = "The ASGI application returned without accepting or closing, WebSocket %s"
                logger.error(text, scope["path"])
            self._finish(500, CloseCode.NORMAL_CLOSURE)

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
        if self._accepted is not None:
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
            self._arrived.clear()
            await self._arrived.wait()
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
        if self._accepted is not None:
            self._decide(kind, message)
        elif self._denying:
            self._continue_denial(kind, message)
        elif kind == "websocket.send":
            self._send(message)
        elif kind == "websocket.close":
            self.close(message.get("code") or 1000, message.get("reason") or "")
        else:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}, the WebSocket is open")
        await self._writable.wait()

    def _decide(self, kind: str, message: dict[str, Any]) -> None:
        if kind == "websocket.accept":
            self._accept(message)
        elif kind == "websocket.close":
            self._deny(403, [(b"content-length", b"0")])
            self._denying = True
            self._disconnected(1006, "")
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
            self._disconnected(1006, "")
            self.transport.close()

    def _send(self, message: dict[str, Any]) -> None:
        text, data = message.get("text"), message.get("bytes")
        if (text is None) == (data is None):
            raise ValueError("websocket.send needs either 'text' or 'bytes'")
        try:
            if text is not None:
                self._core.send_text(text.encode())
            else:
                self._core.send_binary(data)
        except InvalidState:
            # A close frame has been sent: there is nothing more to say.
            raise DisconnectedError("the WebSocket is closing") from None
        self._flush()

    def close(self, code: int, reason: str = "") -> None:
        """Begins the closing handshake; the client has some seconds for its part."""
        if self._core.state is State.OPEN:
            self._core.send_close(code, reason)
            self._flush()
            self._set_timer(CLOSE_TIME, self.transport.abort)

    def restart(self) -> None:
        """The server ends or is replaced: 1012, at once or after the handshake."""
        self._restarts = True
        if self._accepted is None:
            self.close(CloseCode.SERVICE_RESTART)

    def abort(self) -> None:
        """Ends at once."""
        if self.task is not None:
            self.task.cancel()
        self.transport.abort()

    # What the client does

    def data_received(self, data: bytes) -> None:
        if self._accepted is not None or self._denying:
            # Clients send nothing before the handshake is complete.
            self._early += data
            if len(self._early) > 64 * 1024:
                self.transport.abort()
            return
        self._core.receive_data(data)
        for event in self._core.events_received():
            if isinstance(event, Frame):
                self._frame(event)
        self._flush()
        if len(self._messages) > MOST_WAITING and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        if self._core.close_rcvd is not None or self._core.state is not State.OPEN:
            self._closing()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            if bytes(frame.data) == self._unanswered_ping:
                self._unanswered_ping = None
            return
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._opcode = frame.opcode
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        data, self._parts = b"".join(self._parts), []
        message: dict[str, Any] = {"type": "websocket.receive", "text": None, "bytes": None}
        if self._opcode is Opcode.BINARY:
            message["bytes"] = data
        else:
            try:
                message["text"] = codecs.decode(data, "utf-8")
            except UnicodeDecodeError:
                self._core.fail(CloseCode.INVALID_DATA, "invalid UTF-8")
                return
        if not self._app_ended:
            self._messages.append(message)
            self._arrived.set()

    def _closing(self) -> None:
        """The connection fails or closes: the client's reason, or else ours."""
        close = self._core.close_rcvd or self._core.close_sent
        if close is not None:
            self._disconnected(close.code, close.reason)
        if self._core.close_expected():
            self._set_timer(CLOSE_TIME, self.transport.abort)

    def eof_received(self) -> bool:
        if self._accepted is None and not self._denying:
            self._core.receive_eof()
            self._flush()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._set_timer(0, None)
        self._writable.set()
        sent = self._core.close_sent
        self._disconnected(sent.code if sent else 1006, sent.reason if sent else "")
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
                "code": code or NO_CODE,
                "reason": reason,
            }
            self._arrived.set()

    def _flush(self) -> None:
        """Writes what the core has to say; an empty piece ends the connection."""
        for piece in self._core.data_to_send():
            if piece:
                self.transport.write(piece)
            else:
                self.transport.close()

    # Pings

    def _ping_later(self) -> None:
        if self.config.ws_ping_interval:
            self._set_timer(self.config.ws_ping_interval, self._ping)

    def _ping(self) -> None:
        if self._core.state is not State.OPEN:
            return
        self._unanswered_ping = b"%d" % int(self._loop.time() * 1000)
        self._core.send_ping(self._unanswered_ping)
        self._flush()
        if self.config.ws_ping_timeout:
            self._set_timer(self.config.ws_ping_timeout, self._check_pong)
        else:
            self._ping_later()

    def _check_pong(self) -> None:
        if self._unanswered_ping is None:
            self._ping_later()
        elif self._core.state is State.OPEN:
            self._core.fail(CloseCode.INTERNAL_ERROR, "no pong in time")
            self._flush()
            self._disconnected(1006, "no pong in time")
            # A client that does not reply to a ping replies to nothing else.
            self.transport.abort()

    def _set_timer(self, delay: float, callback: Callable[[], None] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if callback is None else self._loop.call_later(delay, callback)
