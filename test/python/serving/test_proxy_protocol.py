"""Does the PROXY protocol give the client's address, and nothing else pass for it?"""

from __future__ import annotations

import asyncio
import json
import socket
import struct

import pytest
from erlang_loop.asgi import Config
from serving_apps import get, parts_of, respond, serving, talk

pytestmark = pytest.mark.ours

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


async def who(scope, receive, send):
    await respond(send, json.dumps([scope["client"], scope["server"]]).encode())


def version_2(command: int, family: int, fields: bytes, size: int | None = None) -> bytes:
    size = len(fields) if size is None else size
    return SIGNATURE + struct.pack("!BBH", command, family, size) + fields


IPV4 = bytes([203, 0, 113, 7, 192, 0, 2, 1]) + struct.pack("!HH", 5000, 443)
IPV6 = b"".join(
    socket.inet_pton(socket.AF_INET6, ip) for ip in ("2001:db8::7", "2001:db8::1")
) + struct.pack("!HH", 5000, 443)
SEEN_4 = [["203.0.113.7", 5000], ["192.0.2.1", 443]]
SEEN_6 = [["2001:db8::7", 5000], ["2001:db8::1", 443]]

KNOWN = {
    "version 1": (b"PROXY TCP4 203.0.113.7 192.0.2.1 5000 443\r\n", SEEN_4),
    "version 1, IPv6": (b"PROXY TCP6 2001:db8::7 2001:db8::1 5000 443\r\n", SEEN_6),
    "version 2": (version_2(0x21, 0x11, IPV4), SEEN_4),
    "version 2, IPv6": (version_2(0x21, 0x21, IPV6), SEEN_6),
    "version 2 with more fields": (version_2(0x21, 0x11, IPV4 + b"\x04\0\x01x"), SEEN_4),
}
UNKNOWN = {
    "version 1": b"PROXY UNKNOWN\r\n",
    "version 1 with addresses": b"PROXY UNKNOWN 203.0.113.7 192.0.2.1 5000 443\r\n",
    "a health check": version_2(0x20, 0x11, IPV4),
    "no family": version_2(0x21, 0, b""),
    "a Unix socket": version_2(0x21, 0x31, bytes(216)),
}
REFUSED = {
    "nothing": b"",
    "other letters": b"PROXX",
    "a family that is no TCP": b"PROXY UDP4 203.0.113.7 192.0.2.1 5000 443\r\n",
    "the wrong family": b"PROXY TCP6 203.0.113.7 192.0.2.1 5000 443\r\n",
    "a name": b"PROXY TCP4 localhost 192.0.2.1 5000 443\r\n",
    "a large port": b"PROXY TCP4 203.0.113.7 192.0.2.1 65536 443\r\n",
    "a port with a sign": b"PROXY TCP4 203.0.113.7 192.0.2.1 +5000 443\r\n",
    "too few words": b"PROXY TCP4 203.0.113.7 192.0.2.1 5000\r\n",
    "too many words": b"PROXY TCP4 203.0.113.7 192.0.2.1 5000 443 1\r\n",
    "two spaces": b"PROXY TCP4  203.0.113.7 192.0.2.1 5000 443\r\n",
    "a bare LF": b"PROXY UNKNOWN\n",
    "a long line": b"PROXY UNKNOWN " + b"x" * 107 + b"\r\n",
    "bytes that are not text": b"PROXY \xff\r\n",
    "version 3": version_2(0x31, 0x11, IPV4),
    "an unknown command": version_2(0x22, 0x11, IPV4),
    "UDP": version_2(0x21, 0x12, IPV4),
    "addresses that are cut": version_2(0x21, 0x11, IPV4[:-1]),
    "IPv6 addresses that are cut": version_2(0x21, 0x21, IPV4),
    "long fields": version_2(0x21, 0x11, IPV4, 4097),
    "the header twice": version_2(0x21, 0x11, IPV4) * 2,
}


@pytest.mark.parametrize("name", KNOWN)
async def test_addresses(loop, name):
    header, seen = KNOWN[name]
    request = get("/", close=False) + get()
    async with serving(who, lifespan="off", proxy_protocol=True) as address:
        at_once = await talk(address, header + request)
        bytewise = await talk(address, *(header[i : i + 1] for i in range(len(header))), request)
    # Of every request of the connection.
    expected = json.dumps(seen).encode()
    assert (at_once.count(expected), bytewise.count(expected)) == (2, 2)


@pytest.mark.parametrize("name", UNKNOWN)
async def test_the_addresses_of_the_connection_stay(loop, name):
    async with serving(who, lifespan="off", proxy_protocol=True) as address:
        answer = await talk(address, UNKNOWN[name] + get())
    client, server = json.loads(parts_of(answer)[2])
    assert (client[0], tuple(server)) == ("127.0.0.1", address)


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(loop, name):
    async with serving(who, lifespan="off", proxy_protocol=True) as address:
        status, headers, body = parts_of(await talk(address, REFUSED[name] + get()))
    assert (status, headers["connection"]) == (400, "close")
    assert body


async def test_without_the_option_it_is_not_a_request(loop):
    async with serving(who, lifespan="off") as address:
        for header, _ in KNOWN.values():
            assert parts_of(await talk(address, header + get()))[0] in (400, 505)


async def test_a_header_that_never_ends(loop):
    async with serving(who, lifespan="off", proxy_protocol=True, timeout_request_head=0) as address:
        assert parts_of(await talk(address, b"PROXY TCP4 "))[0] == 408


async def test_forwarded_headers_are_those_of_the_client(loop):
    """Who may send them is decided by the address that the PROXY protocol gives."""
    header = KNOWN["version 1"][0]
    request = header + get("/", "X-Forwarded-For: 198.51.100.1")
    seen = {}
    for allowed in ("203.0.113.0/24", "127.0.0.1"):
        options = {"proxy_headers": True, "forwarded_allow_ips": allowed, "proxy_protocol": True}
        async with serving(who, lifespan="off", **options) as address:
            seen[allowed] = json.loads(parts_of(await talk(address, request))[2])[0][0]
    assert seen == {"203.0.113.0/24": "198.51.100.1", "127.0.0.1": "203.0.113.7"}


async def test_the_client_of_a_websocket(loop):
    pytest.importorskip("websockets")

    async def app(scope, receive, send):
        await receive()
        headers = [(b"x-client", scope["client"][0].encode())]
        await send({"type": "websocket.accept", "headers": headers})

    upgrade = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    async with serving(app, lifespan="off", proxy_protocol=True) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(KNOWN["version 2"][0] + get("/", *upgrade, close=False))
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert b"x-client: 203.0.113.7\r\n" in head.lower()


def test_not_with_tls():
    with pytest.raises(ValueError, match="proxy_protocol and ssl"):
        Config(proxy_protocol=True, ssl=object())
