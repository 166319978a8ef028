"""Does the scope describe the client behind a trusted proxy, and nothing that others invent?"""

from __future__ import annotations

import asyncio
import json
import logging
import socket

import pytest
from erlang_loop.asgi import Config, Server
from erlang_loop.asgi.proxies import TrustedProxies, host_and_port
from serving_apps import get, parts_of, respond, serving, talk

pytestmark = pytest.mark.ours


async def who(scope, receive, send):
    await respond(send, json.dumps([scope["scheme"], scope["client"]]).encode())


async def asked(address, *headers):
    """The scheme and the client that the application sees."""
    return json.loads(parts_of(await talk(address, get("/", *headers)))[2])


async def test_a_trusted_proxy(loop):
    headers = "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: HTTPS"
    async with serving(who, lifespan="off", proxy_headers=True) as address:
        assert await asked(address, *headers) == ["https", ["203.0.113.7", 0]]
        # A proxy that adds a line of its own instead of an entry.
        two = "X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.7"
        assert await asked(address, *two) == ["http", ["203.0.113.7", 0]]
        assert (await asked(address, "X-Forwarded-Proto: gopher"))[0] == "http"
        scheme, (host, port) = await asked(address)
    assert (scheme, host) == ("http", "127.0.0.1")
    assert port > 0


@pytest.mark.parametrize(
    "options", [{}, {"proxy_headers": True, "forwarded_allow_ips": "10.0.0.0/8,192.0.2.1"}]
)
async def test_untrusted_proxies_are_ignored(loop, options):
    headers = "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: https"
    async with serving(who, lifespan="off", **options) as address:
        scheme, (host, _) = await asked(address, *headers)
    assert (scheme, host) == ("http", "127.0.0.1")


async def test_a_unix_socket_is_trusted(loop, short_path):
    path = str(short_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        server = Server(who, Config(lifespan="off", proxy_headers=True))
        await server.start([listener])
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(get("/", "X-Forwarded-For: 203.0.113.7:81"))
        answer = await reader.read()
        writer.close()
        await server.close()
    assert json.loads(parts_of(answer)[2])[1] == ["203.0.113.7", 81]


async def test_the_access_log_shows_the_client(loop, caplog):
    caplog.set_level(logging.INFO, "erlang_loop.asgi.access")
    async with serving(who, lifespan="off", proxy_headers=True, access_log=True) as address:
        await asked(address, "X-Forwarded-For: 203.0.113.7")
    assert caplog.messages[0].startswith('203.0.113.7:0 "GET / HTTP/1.1" 200')


async def test_the_scheme_of_a_websocket(loop):
    websockets = pytest.importorskip("websockets.asyncio.client")

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": f"{scope['scheme']} {scope['client'][0]}"})

    headers = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    async with serving(app, lifespan="off", proxy_headers=True) as (host, port):
        client = websockets.connect(f"ws://{host}:{port}", additional_headers=headers)
        async with client as websocket:
            assert await websocket.recv() == "wss 203.0.113.7"


@pytest.mark.parametrize(
    ("allowed", "forwarded", "client"),
    [
        ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.7", "203.0.113.7"),
        ("10.0.0.0/8", "1.1.1.1,203.0.113.7, 10.0.0.2 ,10.0.0.1", "203.0.113.7"),
        ("10.0.0.0/8", "10.0.0.2, 10.0.0.1", "10.0.0.2"),
        ("10.0.0.0/8", "1.1.1.1, unknown, 10.0.0.1", "10.0.0.1"),
        ("10.0.0.0/8", "1.1.1.1, ::ffff:10.0.0.1", "1.1.1.1"),
        ("2001:db8::/32", "2001:db8:1::1, [2001:DB8::2]:443", "2001:db8:1::1"),
        ("10.0.0.1", "unknown", None),
        ("10.0.0.1", "", None),
        ("*", "203.0.113.7, 1.1.1.1", "203.0.113.7"),
        ("*", "x\r\ny, 1.1.1.1", None),
    ],
)
def test_which_address_is_the_client(allowed, forwarded, client):
    found = TrustedProxies(allowed).client(forwarded)
    assert (found and found[0]) == client


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        ("192.0.2.1", ("192.0.2.1", 0)),
        (" 192.0.2.1:80 ", ("192.0.2.1", 80)),
        ("[::1]", ("::1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("::1", ("::1", 0)),
        ("[::1]80", None),
        ("192.0.2.1:65536", None),
        ("192.0.2.1:-1", None),
        ("192.0.2.1:99999999999999999999", None),
        ("_hidden", None),
        ("", None),
    ],
)
def test_entries(entry, result):
    assert host_and_port(entry) == result
