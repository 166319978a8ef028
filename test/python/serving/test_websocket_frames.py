"""Are frames of WebSockets understood as RFC 6455 and 7692 say, and as other implementations do?

The cases are those of the Autobahn test suite by subject: framing, pings, reserved bits, opcodes,
fragments, UTF-8, closing, limits, compression.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from erlang_loop._native import WebSocketFrames
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.extensions import PerMessageDeflate as WsprotoDeflate

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(
    opcode: int, data: bytes = b"", *, fin: bool = True, bits: int = 0, mask: Any = b"abcd"
) -> bytes:
    """A frame of a client, valid or not."""
    first = (0x80 if fin else 0) | bits | opcode
    flag = 0x80 if mask else 0
    if len(data) < 126:
        head = struct.pack("!BB", first, flag | len(data))
    elif len(data) < 65536:
        head = struct.pack("!BBH", first, flag | 126, len(data))
    else:
        head = struct.pack("!BBQ", first, flag | 127, len(data))
    if mask:
        data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    return head + (mask or b"") + data


def failed(code: int) -> Any:
    class Failed:  # noqa: PLW1641 - only compared
        def __eq__(self, other: object) -> bool:
            return isinstance(other, tuple) and other[:2] == ("failed", code)

        def __repr__(self) -> str:
            return f"failed with {code}"

    return Failed()


LONG = "\N{GREEK SMALL LETTER KAPPA}" * 70_000
CASES: dict[str, tuple[bytes, list[Any]]] = {
    # 1: framing
    "empty text": (frame(TEXT), [""]),
    "empty binary": (frame(BINARY), [b""]),
    "125 bytes": (frame(TEXT, b"*" * 125), ["*" * 125]),
    "126 bytes": (frame(BINARY, b"\xfe" * 126), [b"\xfe" * 126]),
    "65535 bytes": (frame(BINARY, b"x" * 65535), [b"x" * 65535]),
    "65536 bytes": (frame(BINARY, b"x" * 65536), [b"x" * 65536]),
    "long text": (frame(TEXT, LONG.encode()), [LONG]),
    "a mask of zeros": (frame(TEXT, b"x", mask=bytes(4)), ["x"]),
    "no mask": (frame(TEXT, b"x", mask=None), [failed(1002)]),
    # 2: pings and pongs
    "ping": (frame(PING), [("ping", b"")]),
    "ping with data": (frame(PING, b"\x00\xff" * 62), [("ping", b"\x00\xff" * 62)]),
    "a ping that is too long": (frame(PING, b"x" * 126), [failed(1002)]),
    "an unexpected pong": (frame(PONG, b"x"), [("pong", b"x")]),
    # 3: reserved bits
    "reserved bit 1": (frame(TEXT, b"x", bits=0x40), [failed(1002)]),
    "reserved bit 2": (frame(TEXT, b"x", bits=0x20), [failed(1002)]),
    "reserved bit 3": (frame(PING, b"x", bits=0x10), [failed(1002)]),
    "what comes after a failure": (frame(TEXT, b"x", bits=0x20) + frame(PING), [failed(1002)]),
    # 4: opcodes
    **{
        f"opcode {opcode}": (frame(opcode), [failed(1002)])
        for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)
    },
    # 5: fragments
    "fragments": (
        frame(TEXT, b"a", fin=False) + frame(CONT, b"b", fin=False) + frame(CONT, b"c"),
        ["abc"],
    ),
    "a ping between fragments": (
        frame(TEXT, b"a", fin=False) + frame(PING, b"p") + frame(CONT, b"b"),
        [("ping", b"p"), "ab"],
    ),
    "empty fragments": (frame(TEXT, fin=False) + frame(CONT, fin=False) + frame(CONT), [""]),
    "a ping in fragments": (frame(PING, b"a", fin=False), [failed(1002)]),
    "nothing to continue": (frame(CONT, b"a"), [failed(1002)]),
    "nothing left to continue": (frame(TEXT, b"a") + frame(CONT, b"b"), ["a", failed(1002)]),
    "a message within a message": (
        frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"),
        [failed(1002)],
    ),
    # 6: UTF-8
    "a character in two fragments": (
        frame(TEXT, b"\xce", fin=False) + frame(CONT, b"\xba"),
        ["\u03ba"],
    ),
    "invalid UTF-8": (frame(TEXT, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80"), [failed(1007)]),
    "half a character": (frame(TEXT, b"\xce"), [failed(1007)]),
    "an overlong character": (frame(TEXT, b"\xc0\xaf"), [failed(1007)]),
    "beyond the last character": (frame(TEXT, b"\xf4\x90\x80\x80"), [failed(1007)]),
    # 7: closing
    "close": (frame(CLOSE), [("close", 1005, "")]),
    "close with a code": (frame(CLOSE, b"\x03\xe8"), [("close", 1000, "")]),
    "close with a reason": (frame(CLOSE, b"\x03\xe8bye"), [("close", 1000, "bye")]),
    "what comes after close": (frame(CLOSE) + frame(TEXT, b"x"), [("close", 1005, "")]),
    "half a code": (frame(CLOSE, b"\x03"), [failed(1002)]),
    "a close that is too long": (frame(CLOSE, b"\x03\xe8" + b"x" * 124), [failed(1002)]),
    "a reason that is not UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), [failed(1007)]),
    **{
        f"close with {code}": (frame(CLOSE, struct.pack("!H", code)), [("close", code, "")])
        for code in (1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4999)
    },
    **{
        f"close with the invalid code {code}": (
            frame(CLOSE, struct.pack("!H", code)),
            [failed(1002)],
        )
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    },
    # 9: limits. Refused before the payload arrives.
    "a message that is too large": (frame(BINARY, bytes(1 << 20))[:14], [failed(1009)]),
    "fragments that are too large": (
        frame(BINARY, bytes(200_000), fin=False) + frame(CONT, bytes(200_000)),
        [failed(1009)],
    ),
    "a length with its first bit set": (b"\x82\xff" + b"\xff" * 12, [failed(1009)]),
}
MAX_SIZE = 300_000


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("cut", ["whole", "in pieces"])
def test_cases(name, cut):
    data, expected = CASES[name]
    frames = WebSocketFrames(MAX_SIZE)
    size = len(data) if cut == "whole" else max(1, len(data) // 97)
    events: list[Any] = []
    for at in range(0, len(data), size):
        events += frames.receive(data[at : at + size])
    assert events == expected


DEFLATES = [None, (False, False, 12), (True, True, 15), (False, True, 9), (True, False, 10)]


@pytest.mark.parametrize("deflate", DEFLATES)
@pytest.mark.parametrize("peer", ["websockets", "wsproto"])
def test_talks_with(peer, deflate):
    """Random messages in both directions, in random pieces."""
    choose = random.Random(f"{peer} {deflate}")
    ours = WebSocketFrames(0, deflate)
    other = Websockets(deflate) if peer == "websockets" else Wsproto(deflate)
    sent: list[Any] = []
    incoming = b""
    outgoing = b""
    for _ in range(200):
        size = choose.choice((0, 1, 5, 125, 126, 5000, 70_000))
        alphabet = choose.choice(("a", "ab\u03ba", "".join(map(chr, range(32, 127)))))
        text = "".join(choose.choices(alphabet, k=size))
        message: Any = text if choose.random() < 0.5 else text.encode("utf-16")
        sent.append(message)
        incoming += other.encoded(message)
        outgoing += ours.message(message)
    events: list[Any] = []
    while incoming:
        size = choose.choice((1, 3, 1000, 100_000))
        events += ours.receive(incoming[:size])
        incoming = incoming[size:]
    assert events == sent
    assert other.decoded(outgoing) == sent
    assert other.decoded(ours.ping(b"x") + ours.close(1012, "restart")) == [
        b"ping x",
        (1012, "restart"),
    ]


class Websockets:
    """The core of the package websockets, as a client."""

    def __init__(self, deflate: Any) -> None:
        self.core = Protocol(CLIENT, max_size=None)
        if deflate is not None:
            forgets, client_forgets, bits = deflate
            self.core.extensions = [PerMessageDeflate(forgets, client_forgets, bits, 15)]

    def encoded(self, message: Any) -> bytes:
        if isinstance(message, str):
            self.core.send_text(message.encode())
        else:
            self.core.send_binary(message)
        return b"".join(self.core.data_to_send())

    def decoded(self, data: bytes) -> list[Any]:
        self.core.receive_data(data)
        found: list[Any] = []
        for event in self.core.events_received():
            assert isinstance(event, Frame)
            if event.opcode is Opcode.PING:
                found.append(b"ping " + bytes(event.data))
            elif event.opcode is Opcode.CLOSE:
                assert self.core.close_rcvd is not None
                found.append((self.core.close_rcvd.code, self.core.close_rcvd.reason))
            else:
                data = bytes(event.data)
                found.append(data.decode() if event.opcode is Opcode.TEXT else data)
        return found


class Wsproto:
    """wsproto, as a client."""

    def __init__(self, deflate: Any) -> None:
        extensions = []
        if deflate is not None:
            forgets, client_forgets, bits = deflate
            extension = WsprotoDeflate(client_forgets, 15, forgets, bits)
            extension._enabled = True
            extensions = [extension]
        self.connection = Connection(ConnectionType.CLIENT, extensions)

    def encoded(self, message: Any) -> bytes:
        kind = TextMessage if isinstance(message, str) else BytesMessage
        return self.connection.send(kind(data=message))

    def decoded(self, data: bytes) -> list[Any]:
        self.connection.receive_data(data)
        found: list[Any] = []
        parts: list[Any] = []
        for event in self.connection.events():
            if isinstance(event, Ping):
                found.append(b"ping " + bytes(event.payload))
            elif isinstance(event, CloseConnection):
                found.append((event.code, event.reason))
            else:
                parts.append(event.data)
                if event.message_finished:
                    found.append(type(event.data)().join(parts))
                    parts = []
        return found


def test_a_bomb_is_refused():
    other = Websockets((False, False, 15))
    frames = WebSocketFrames(MAX_SIZE, (False, False, 15))
    bomb = other.encoded(bytes(50_000_000))
    assert len(bomb) < 100_000
    assert frames.receive(bomb) == [failed(1009)]


def test_what_is_not_deflate():
    frames = WebSocketFrames(MAX_SIZE, (False, False, 15))
    assert frames.receive(frame(TEXT, b"\xff\xff\xff", bits=0x40)) == [failed(1002)]


def test_arguments():
    frames = WebSocketFrames(0)
    with pytest.raises(TypeError):
        frames.message(7)
    with pytest.raises(ValueError):
        frames.close(1005 + 1, "")
    with pytest.raises(ValueError):
        frames.close(1000, "x" * 124)
    with pytest.raises(ValueError):
        WebSocketFrames(0, (False, False, 8))
    assert frames.message(bytearray(b"x")) == frames.message(memoryview(b"x")) == b"\x82\x01x"
    assert frames.close(1005, "") == b"\x88\x00"


def test_random_bytes():
    choose = random.Random(7)
    for _ in range(20_000):
        frames = WebSocketFrames(1000, choose.choice(DEFLATES))
        data = choose.randbytes(choose.choice((2, 6, 14, 40)))
        if choose.random() < 0.7:
            data = frame(
                choose.choice((0, 1, 2, 8, 9)),
                data,
                fin=choose.random() < 0.8,
                bits=choose.choice((0, 0x40)),
            )
        for event in frames.receive(data * 2):
            assert isinstance(event, (str, bytes, tuple))
