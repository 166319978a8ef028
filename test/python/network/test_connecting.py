"""Connecting to an address: to where, with which errors, what is known of the connection?"""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from connections import Recorder


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        yield sock


@pytest.fixture
def unused_port():
    """Bound, but not listening."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


async def test_addresses(loop, listener):
    transport, protocol = await loop.create_connection(Recorder, *listener.getsockname())
    connection, address = listener.accept()
    assert transport.get_extra_info("peername") == listener.getsockname()
    assert transport.get_extra_info("sockname") == address
    shown = transport.get_extra_info("socket")
    assert (shown.family, shown.type) == (socket.AF_INET, socket.SOCK_STREAM)
    assert (shown.proto, shown.gettimeout()) == (socket.IPPROTO_TCP, 0)
    assert transport.get_extra_info("nothing", "default") == "default"
    transport.close()
    await protocol.lost
    connection.close()
    # Still known after the end.
    assert transport.get_extra_info("peername") == listener.getsockname()
    assert transport.get_extra_info("sockname") == address
    assert transport.get_extra_info("socket") is shown


async def test_socket_is_shown_after_the_end(loop, listener):
    transport, protocol = await loop.create_connection(Recorder, *listener.getsockname())
    listener.accept()[0].close()
    transport.close()
    await protocol.lost
    assert transport.get_extra_info("socket").fileno() == -1


async def test_connecting_to_the_unspecified_address(loop, listener):
    port = listener.getsockname()[1]
    transport, _ = await loop.create_connection(Recorder, "0.0.0.0", port)
    assert transport.get_extra_info("peername") == ("127.0.0.1", port)
    listener.accept()[0].close()
    transport.close()


async def test_refused(loop, unused_port):
    with pytest.raises(ConnectionRefusedError) as raised:
        await loop.create_connection(Recorder, "127.0.0.1", unused_port)
    assert raised.value.errno == errno.ECONNREFUSED
    assert f"('127.0.0.1', {unused_port})" in str(raised.value)
    with socket.socket() as sock:
        sock.setblocking(False)
        with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
            await loop.sock_connect(sock, ("127.0.0.1", unused_port))


async def test_unreachable(loop):
    """A failure that is known at once."""
    with pytest.raises(OSError) as raised:
        await loop.create_connection(Recorder, "255.255.255.255", 9)
    assert raised.value.errno in (errno.EACCES, errno.ENETUNREACH, errno.EINVAL)


@pytest.mark.parametrize("port", [-1, 65536, "no such service"])
async def test_impossible_ports(loop, port):
    with pytest.raises((OSError, OverflowError, ValueError)):
        await loop.create_connection(Recorder, "127.0.0.1", port)


async def test_port_as_text(loop, listener):
    transport, _ = await loop.create_connection(
        Recorder, "127.0.0.1", str(listener.getsockname()[1])
    )
    listener.accept()[0].close()
    transport.close()


async def test_cancelled_while_connecting(loop):
    """A listener whose queue is full leaves connections waiting."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        while True:
            task = loop.create_task(loop.create_connection(Recorder, *full.getsockname()))
            done, _ = await asyncio.wait([task], timeout=0.2)
            if not done:
                break
            waiting.append(task.result()[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for transport in waiting:
            transport.abort()


@pytest.mark.ours
async def test_protocol_factory_that_fails(loop, listener):
    def fail() -> asyncio.Protocol:
        raise LookupError("no protocol")

    with pytest.raises(LookupError):
        await loop.create_connection(fail, *listener.getsockname())
    # asyncio leaves the socket to the collector.
    connection, _ = listener.accept()
    assert connection.recv(1) == b""
    connection.close()


async def test_a_socket_that_connects_in_its_own_way(loop, listener):
    class Proxied(socket.socket):
        def connect(self, address: object) -> None:
            super().connect(listener.getsockname())

    with Proxied() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", 1))
        assert sock.getpeername() == listener.getsockname()
        listener.accept()[0].close()


async def test_sock_connect(loop, listener):
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, listener.getsockname())
        listener.accept()[0].close()


async def test_sock_connect_to_addresses_that_asyncio_resolves(loop, listener):
    """Ports as text went to the socket as they were: TypeError where asyncio connects."""
    host, port = listener.getsockname()
    for address in ((host, str(port)), (host, str(port).encode()), [host, port], (host, port, 0)):
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            assert sock.getpeername() == (host, port)
            listener.accept()[0].close()


@pytest.mark.parametrize("port", [None, "", 1.5])
async def test_sock_connect_to_no_port(loop, port):
    with socket.socket() as sock:
        sock.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(sock, ("127.0.0.1", port))


@pytest.mark.parametrize("address", [("::1",), ("::1", 0, 0)])
async def test_sock_connect_names_the_whole_address(loop, unused_port, address):
    with socket.socket(socket.AF_INET6) as sock:
        sock.setblocking(False)
        address = (address[0], unused_port, *address[2:])
        with pytest.raises(OSError, match=r"\('::1', \d+, 0, 0\)") as refused:
            await loop.sock_connect(sock, address)
        assert refused.value.errno == errno.ECONNREFUSED


async def test_sock_connect_of_a_connected_socket(loop, short_path):
    """Previously it reported success, as if it had been connected just now."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as sock:
        listener.bind(str(short_path / "socket"))
        listener.listen()
        sock.setblocking(False)
        await loop.sock_connect(sock, str(short_path / "socket"))
        with pytest.raises(OSError, match="already connected") as refused:
            await loop.sock_connect(sock, str(short_path / "socket"))
        assert refused.value.errno == errno.EISCONN


async def test_sock_connect_again(loop, listener):
    """Linux lets a socket that connected in the background be connected once more, in which it
    tells that it is. We had used that up."""
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, listener.getsockname())
        await loop.sock_connect(sock, listener.getsockname())
        with pytest.raises(OSError, match="already connected"):
            await loop.sock_connect(sock, listener.getsockname())
        listener.accept()[0].close()
