"""Sockets of a class of the program's own, which reads and writes in its own way."""

from __future__ import annotations

import asyncio
import socket

from connections import Datagrams, echo


class Noting(socket.socket):
    """Records its calls, as proxies, recorders and tests do."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.asked = []
        self.setblocking(False)

    def recv(self, *args):
        self.asked.append("recv")
        return super().recv(*args)

    def recv_into(self, *args):
        self.asked.append("recv_into")
        return super().recv_into(*args)

    def send(self, *args):
        self.asked.append("send")
        return super().send(*args)

    def recvfrom(self, *args):
        self.asked.append("recvfrom")
        return super().recvfrom(*args)

    def sendto(self, *args):
        self.asked.append("sendto")
        return super().sendto(*args)


class Named(socket.socket):
    """A class of its own that does nothing of the kind."""

    name = "mine"


async def exchanged(sock, address, **options):
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, address)
    reader, writer = await asyncio.open_connection(sock=sock, **options)
    writer.write(b"hello")
    answer = await reader.readexactly(5)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_its_methods_are_called(loop):
    """Previously native transports used the descriptor instead."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    sock = Noting()
    assert await exchanged(sock, server.sockets[0].getsockname()) == b"hello"
    # In the end `recv` finds that there is no more, or is not asked any longer.
    assert sock.asked[:2] == ["send", "recv"]
    server.close()
    await server.wait_closed()


async def test_its_methods_are_called_under_tls(loop, certificates):
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=certificates.server)
    sock = Noting()
    address = server.sockets[0].getsockname()
    options = {"ssl": certificates.client, "server_hostname": "localhost"}
    assert await exchanged(sock, address, **options) == b"hello"
    assert sock.asked.count("send") > 1
    assert sock.asked.count("recv") + sock.asked.count("recv_into") > 1
    server.close()
    await server.wait_closed()


async def test_its_methods_are_called_for_datagrams(loop):
    sock = Noting(type=socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, sock=sock)
    address = sock.getsockname()
    transport.sendto(b"hello", address)
    assert await protocol.received.get() == (b"hello", address)
    transport.close()
    await protocol.lost
    assert sock.asked[:2] == ["sendto", "recvfrom"]


async def test_a_class_without_such_methods_works(loop):
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    sock = Named()
    sock.setblocking(False)
    assert await exchanged(sock, server.sockets[0].getsockname()) == b"hello"
    server.close()
    await server.wait_closed()
