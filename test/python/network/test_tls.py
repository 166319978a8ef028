"""TLS: is it used when requested, are certificates checked, does all data arrive?"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import ssl

import pytest
from connections import Recorder, echo, eventually

HOST = "localhost"


@pytest.fixture
def tls_server(loop, certificates):
    """An echo server; its port."""
    server = loop.run_until_complete(
        asyncio.start_server(echo, "127.0.0.1", 0, ssl=certificates.server)
    )
    yield server.sockets[0].getsockname()[1]
    server.close()
    loop.run_until_complete(server.wait_closed())


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


async def test_echo(loop, certificates, tls_server):
    reader, writer = await asyncio.open_connection(HOST, tls_server, ssl=certificates.client)
    data = os.urandom(2_000_000)
    writer.write(data)
    assert await reader.readexactly(len(data)) == data
    assert writer.get_extra_info("cipher")
    assert dict(writer.get_extra_info("peercert"))["subjectAltName"]
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert writer.get_extra_info("peername")[1] == tls_server
    await close(writer)


async def test_nothing_is_sent_in_the_clear(loop, certificates):
    """What the network sees begins with a handshake and does not contain the password."""
    seen = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend(await reader.read(10_000))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _, writer = await asyncio.open_connection(HOST, port, ssl=certificates.client)
        writer.write(b"password=secret")
    server.close()
    await server.wait_closed()
    assert seen[:2] == b"\x16\x03"
    assert b"secret" not in seen


async def test_plain_client_gets_no_response(loop, unhandled, tls_server):
    reader, writer = await asyncio.open_connection("127.0.0.1", tls_server)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    assert b"GET" not in answer
    await close(writer)
    assert all(isinstance(context["exception"], ssl.SSLError) for context in unhandled)
    unhandled.clear()


async def test_untrusted_certificate(loop, unhandled, tls_server):
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(HOST, tls_server, ssl=True)
    unhandled.clear()


async def test_wrong_name(loop, certificates, unhandled, tls_server):
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(
            "127.0.0.1", tls_server, ssl=certificates.client, server_hostname="example.org"
        )
    unhandled.clear()


async def test_start_tls(loop, certificates):
    """Plain at first, as SMTP and PostgreSQL do it, then encrypted, on both ends."""
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()

    def accept() -> Recorder:
        protocol = Recorder()
        accepted.put_nowait(protocol)
        return protocol

    server = await loop.create_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport, client = await loop.create_connection(Recorder, "127.0.0.1", port)
    served = await accepted.get()
    client.transport.write(b"STARTTLS")
    await served.received(8)
    secure_server, secure_client = await asyncio.gather(
        loop.start_tls(served.transport, served, certificates.server, server_side=True),
        loop.start_tls(transport, client, certificates.client, server_hostname=HOST),
    )
    secure_client.write(b"in secret")
    assert await served.received(17) == b"STARTTLSin secret"
    secure_server.write(b"answer")
    assert await client.received(6) == b"answer"
    secure_client.close()
    await client.lost
    await served.lost
    server.close()
    await server.wait_closed()


@pytest.mark.ours
async def test_start_tls_of_a_stream_that_has_the_handshake_already(loop, certificates):
    """Older patch releases of Python take no notice of it, and the handshake never ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader._wait_for_data("test")
        await writer.start_tls(certificates.server)
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        await writer.start_tls(certificates.client, server_hostname=HOST)
        writer.write(b"ping\n")
        assert await reader.readline() == b"ping\n"
        writer.close()
        await writer.wait_closed()


async def test_handshake_that_never_ends(loop, certificates):
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(ignore, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with pytest.raises((ConnectionAbortedError, TimeoutError)):
        await asyncio.open_connection(
            HOST, port, ssl=certificates.client, ssl_handshake_timeout=0.05
        )
    silent.close()
    await silent.wait_closed()


async def test_server_ends_a_silent_handshake(loop, certificates, unhandled):
    server = await asyncio.start_server(
        echo, "127.0.0.1", 0, ssl=certificates.server, ssl_handshake_timeout=0.05
    )
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    await close(writer)
    server.close()
    await server.wait_closed()
    unhandled.clear()


async def test_flow_control(loop, certificates):
    """drain() waits for the reader through TLS, too."""
    piece = bytes(1_000_000)
    finished = loop.create_future()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = 0
        while data := await reader.read(100_000):
            received += len(data)
            await asyncio.sleep(0)
        finished.set_result(received)
        writer.close()

    server = await asyncio.start_server(slow, "127.0.0.1", 0, ssl=certificates.server)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection(HOST, port, ssl=certificates.client)
    most = 0
    for _ in range(30):
        writer.write(piece)
        most = max(most, writer.transport.get_write_buffer_size())
        await writer.drain()
    await close(writer)
    assert await finished == 30 * len(piece)
    assert most < 3 * len(piece)
    server.close()
    await server.wait_closed()


async def test_many_at_once(loop, certificates, tls_server):
    async def talk(number: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, tls_server, ssl=certificates.client)
        for message in range(5):
            line = b"%d %d\n" % (number, message)
            writer.write(line)
            assert await reader.readline() == line
        await close(writer)

    await asyncio.gather(*map(talk, range(50)))


async def test_abort(loop, certificates, tls_server):
    _, writer = await asyncio.open_connection(HOST, tls_server, ssl=certificates.client)
    writer.write(bytes(10_000_000))
    writer.transport.abort()
    assert writer.transport.is_closing()


async def test_given_socket(loop, certificates, tls_server):
    sock = socket.create_connection(("127.0.0.1", tls_server))
    sock.setblocking(False)
    reader, writer = await asyncio.open_connection(
        sock=sock, ssl=certificates.client, server_hostname=HOST
    )
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    await close(writer)


async def test_over_a_unix_socket(loop, certificates, short_path):
    path = short_path / "socket"
    server = await asyncio.start_unix_server(echo, path, ssl=certificates.server)
    reader, writer = await asyncio.open_unix_connection(
        path, ssl=certificates.client, server_hostname=HOST
    )
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    await close(writer)
    server.close()
    await server.wait_closed()


async def test_wrong_arguments(loop, certificates):
    with pytest.raises(ValueError):
        await asyncio.open_connection("127.0.0.1", 1, ssl_handshake_timeout=1)
    with pytest.raises(TypeError):
        await asyncio.start_server(echo, "127.0.0.1", 0, ssl=True)
    with pytest.raises(ValueError):
        sock = socket.socket()
        try:
            await loop.create_connection(Recorder, sock=sock, ssl=certificates.client)
        finally:
            sock.close()


@pytest.mark.parametrize(
    "data",
    [
        bytes(100_000),
        bytearray(range(256)) * 300,
        memoryview(bytes(range(200)) * 500),
        memoryview(array.array("I", range(50_000))),
    ],
    ids=lambda data: type(data).__name__,
)
async def test_whatever_is_written(loop, certificates, tls_server, data):
    """Longer than a record, and counted in bytes."""
    if memoryview(data).itemsize > 1 and type(loop) is asyncio.SelectorEventLoop:
        pytest.skip("asyncio counts the items of a memoryview as bytes")
    reader, writer = await asyncio.open_connection(HOST, tls_server, ssl=certificates.client)
    writer.write(data)
    writer.writelines([b"", b"a", bytearray(b"b"), memoryview(b"c")])
    writer.write(b"")
    expected = memoryview(data).tobytes() + b"abc"
    assert await reader.readexactly(len(expected)) == expected
    with pytest.raises(TypeError, match="bytes-like"):
        writer.write("text")
    await close(writer)


async def test_lines_that_are_not_bytes(loop, certificates, unhandled, tls_server):
    """Previously the caller got a TypeError, and the connection stayed open; on asyncio it ends."""
    transport, protocol = await loop.create_connection(
        Recorder, HOST, tls_server, ssl=certificates.client
    )
    with pytest.raises(TypeError, match="not iterable"):
        transport.writelines(5)
    assert not transport.is_closing()
    transport.writelines([b"bytes", "text"])
    await protocol.lost
    assert isinstance(unhandled.pop()["exception"], TypeError)


async def test_each_message_comes_by_itself(loop, certificates):
    """Small messages, one after the other, with nothing left in between."""

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=certificates.server)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection(HOST, port, ssl=certificates.client)
    for number in range(300):
        message = b"%d" % number * (number + 1)
        writer.write(message)
        assert await reader.readexactly(len(message)) == message
    await close(writer)
    server.close()
    await server.wait_closed()


async def test_buffered_protocol_behind_tls(loop, certificates, tls_server):
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(1000)
            self.got = b""
            self.all = loop.create_future()

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.got += self.buffer[:nbytes]
            if len(self.got) == 50_000:
                self.all.set_result(None)

    transport, protocol = await loop.create_connection(
        Buffered, HOST, tls_server, ssl=certificates.client
    )
    transport.write(b"x" * 50_000)
    await protocol.all
    assert protocol.got == b"x" * 50_000
    transport.abort()


async def test_protocol_that_fails_loses_its_connection(loop, certificates, unhandled, tls_server):
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("on purpose")

    transport, protocol = await loop.create_connection(
        Failing, HOST, tls_server, ssl=certificates.client
    )
    transport.write(b"x")
    await eventually(lambda: unhandled)
    assert isinstance(unhandled.pop()["exception"], LookupError)
    await protocol.lost
    assert transport.is_closing()
