"""Datagrams: connected, unconnected, broadcast, IPv6, Unix, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
import struct
import sys

import pytest
from connections import Datagrams, endpoint

LOCAL = ("127.0.0.1", 0)


def address(transport: asyncio.DatagramTransport) -> tuple[str, int]:
    return transport.get_extra_info("sockname")


async def test_connected(loop):
    async with endpoint(local_addr=LOCAL) as (server, served):
        async with endpoint(remote_addr=address(server)) as (client, answered):
            client.sendto(b"question")
            data, sender = await served.received.get()
            assert (data, sender) == (b"question", address(client))
            server.sendto(b"answer", sender)
            assert await answered.received.get() == (b"answer", address(server))
            assert client.get_extra_info("peername") == address(server)
            client.sendto(b"named", address(server))
            assert (await served.received.get())[0] == b"named"
            with pytest.raises(ValueError):
                client.sendto(b"elsewhere", ("127.0.0.1", 1))


async def test_unconnected_to_many(loop):
    async with endpoint(local_addr=LOCAL) as (first, one):
        async with endpoint(local_addr=LOCAL) as (second, two):
            async with endpoint(local_addr=LOCAL) as (sender, _):
                sender.sendto(b"to one", address(first))
                sender.sendto(b"to two", address(second))
                assert await one.received.get() == (b"to one", address(sender))
                assert await two.received.get() == (b"to two", address(sender))


async def test_each_peer_gets_its_replies(loop):
    """Also where several are alike: of one port on two hosts, of one host with many ports."""
    with contextlib.ExitStack() as stack:

        def client(host: str, port: int = 0) -> socket.socket:
            sock = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            sock.bind((host, port))
            sock.setblocking(False)
            return sock

        first = client("127.0.0.1")
        peers = [first, client("127.0.0.2", first.getsockname()[1])]
        peers += [client("127.0.0.1") for _ in range(200)]
        async with endpoint(local_addr=("0.0.0.0", 0)) as (server, served):
            port = address(server)[1]
            for number in range(3):
                for index, peer in enumerate(peers):
                    peer.sendto(b"%d" % index, ("127.0.0.1", port))
                    data, sender = await served.received.get()
                    assert (int(data), sender) == (index, peer.getsockname())
                    # As it came, or in another spelling.
                    server.sendto(data, sender if number % 2 else (sender[0], sender[1]))
                    assert await loop.sock_recv(peer, 100) == data


async def test_empty_datagram(loop):
    """It is a datagram like others; up to 3.12 asyncio's own loop does not send it."""
    async with endpoint(local_addr=LOCAL) as (server, served):
        async with endpoint(remote_addr=address(server)) as (client, _):
            client.sendto(b"")
            client.sendto(b"after")
            first = (await served.received.get())[0]
            if sys.version_info >= (3, 13):
                assert first == b""
                first = (await served.received.get())[0]
            assert first in (b"", b"after")


async def test_large_datagrams(loop):
    async with endpoint(local_addr=LOCAL) as (server, served):
        async with endpoint(remote_addr=address(server)) as (client, failed):
            for size in (1, 1472, 9000, 65_507):
                client.sendto(bytes(size))
                assert len((await served.received.get())[0]) == size
            client.sendto(bytes(65_508))
            assert (await failed.errors.get()).errno == errno.EMSGSIZE


async def test_ipv6(loop):
    async with endpoint(local_addr=("::1", 0)) as (server, served):
        async with endpoint(remote_addr=address(server)[:2]) as (client, answered):
            client.sendto(b"question")
            data, sender = await served.received.get()
            assert data == b"question"
            assert sender == address(client)
            assert len(sender) == 4
            server.sendto(b"answer", sender)
            assert (await answered.received.get())[0] == b"answer"
    async with endpoint(local_addr=("::1", 0), family=socket.AF_INET6) as (server, served):
        server.sendto(b"to myself", address(server))
        assert await served.received.get() == (b"to myself", address(server))


async def test_unix_datagrams(loop, short_path):
    path = str(short_path / "socket")
    async with endpoint(local_addr=path, family=socket.AF_UNIX) as (_, served):
        other = str(short_path / "other")
        async with endpoint(local_addr=other, remote_addr=path, family=socket.AF_UNIX) as (
            client,
            _,
        ):
            client.sendto(b"hello")
            assert await served.received.get() == (b"hello", other)


async def test_refused_port_is_reported(loop):
    async with endpoint(local_addr=LOCAL) as (server, _):
        gone = address(server)
    async with endpoint(remote_addr=gone) as (client, failed):
        client.sendto(b"anyone?")
        assert isinstance(await failed.errors.get(), ConnectionRefusedError)
        assert not client.is_closing()


async def test_broadcast(loop):
    """Without allow_broadcast the system refuses; with it the datagram may go."""
    async with endpoint(local_addr=("0.0.0.0", 0)) as (plain, failed):
        plain.sendto(b"to all", ("255.255.255.255", 9))
        assert isinstance(await failed.errors.get(), PermissionError)
    async with endpoint(local_addr=("0.0.0.0", 0), allow_broadcast=True) as (allowed, failed):
        sock = allowed.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
        # The loopback network's own broadcast address, which every machine has.
        async with endpoint(local_addr=("0.0.0.0", 0)) as (listener, heard):
            allowed.sendto(b"to all", ("127.255.255.255", address(listener)[1]))
            assert (await heard.received.get())[0] == b"to all"
        assert failed.errors.empty()


async def test_every_parameter(loop):
    async with endpoint(
        local_addr=LOCAL,
        family=socket.AF_INET,
        proto=socket.IPPROTO_UDP,
        flags=socket.AI_NUMERICHOST,
        reuse_port=True,
    ) as (first, _):
        sock = first.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
        async with endpoint(local_addr=address(first), reuse_port=True) as (second, _):
            assert address(second) == address(first)
    with pytest.raises(OSError):  # A name instead of a number.
        await loop.create_datagram_endpoint(
            Datagrams, local_addr=("localhost", 0), flags=socket.AI_NUMERICHOST
        )


@pytest.mark.ours
async def test_reuse_address(loop):
    """asyncio dropped the parameter; here it means what it says."""
    async with endpoint(local_addr=LOCAL, reuse_address=True) as (first, _):
        sock = first.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        options = {"reuse_address": True, "reuse_port": True, "allow_broadcast": True}
        async with endpoint(local_addr=LOCAL, remote_addr=address(first), **options) as (second, _):
            assert second.get_extra_info("peername") == address(first)
            sock = second.get_extra_info("socket")
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_BROADCAST):
                assert sock.getsockopt(socket.SOL_SOCKET, option)
        async with endpoint(local_addr=address(first), reuse_address=True) as (same, _):
            assert address(same) == address(first)
    async with endpoint(local_addr=LOCAL, reuse_address=False) as (plain, _):
        sock = plain.get_extra_info("socket")
        assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    with pytest.raises(ValueError):
        await loop.create_datagram_endpoint(Datagrams, reuse_address=True)


async def test_given_socket(loop):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(LOCAL)
    async with endpoint(sock=sock) as (transport, received):
        transport.sendto(b"to myself", sock.getsockname())
        assert (await received.received.get())[0] == b"to myself"
    with pytest.raises(ValueError):
        await loop.create_datagram_endpoint(Datagrams, sock=sock, local_addr=LOCAL)


async def test_wrong_arguments(loop):
    with pytest.raises(ValueError):
        await loop.create_datagram_endpoint(Datagrams)
    async with endpoint(local_addr=LOCAL) as (transport, _):
        with pytest.raises(TypeError):
            transport.sendto("text", address(transport))


async def test_10_000_datagrams(loop):
    """In bursts that a socket's buffer holds, nothing is lost on the loopback."""
    async with endpoint(local_addr=LOCAL) as (server, served):
        async with endpoint(remote_addr=address(server)) as (client, _):
            for burst in range(100):
                for number in range(100):
                    client.sendto(b"%d %d" % (burst, number))
                for number in range(100):
                    data, _ = await served.received.get()
                    assert data == b"%d %d" % (burst, number)


async def test_others_run_during_a_burst(loop):
    """However many datagrams wait, callbacks run between them."""
    turns = []

    def turn() -> None:
        turns.append(served.received.qsize())
        if turns[-1] < 200:
            loop.call_soon(turn)

    async with endpoint(local_addr=LOCAL) as (server, served):
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.connect(address(server))
            for number in range(200):
                client.send(b"%d" % number)
        turn()
        received = [(await served.received.get())[0] for _ in range(200)]
    assert received == [b"%d" % number for number in range(200)]
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 32


@pytest.mark.parametrize("last", [1, 3, 4, 10, 32, 33])
async def test_nothing_arrives_after_close(loop, last):
    """Also if more had been received by then."""

    class Closing(Datagrams):
        def datagram_received(self, data: bytes, addr: object) -> None:
            super().datagram_received(data, addr)
            if self.received.qsize() == last:
                transport.close()

    transport, protocol = await loop.create_datagram_endpoint(Closing, local_addr=LOCAL)
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect(address(transport))
        for _ in range(40):
            client.send(b"x")
    assert await protocol.lost is None
    assert protocol.received.qsize() == last


async def test_flow_control(loop, short_path):
    """A Unix socket without a reader blocks, so the transport's queue grows and pauses us."""
    paused, resumed = asyncio.Event(), asyncio.Event()

    class Paused(Datagrams):
        pause_writing = staticmethod(paused.set)
        resume_writing = staticmethod(resumed.set)

    path = str(short_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(path)
        transport, protocol = await loop.create_datagram_endpoint(
            Paused, remote_addr=path, family=socket.AF_UNIX
        )
        sent = 0
        while not paused.is_set():
            transport.sendto(b"%6d" % sent + bytes(10_000))
            sent += 1
        assert transport.get_write_buffer_size() > 64 * 1024
        received = 0
        reader.setblocking(False)
        while received < sent:
            data = await loop.sock_recv(reader, 20_000)
            assert int(data[:6]) == received
            received += 1
        await resumed.wait()
        transport.close()
        assert await protocol.lost is None


async def test_close_sends_what_waits(loop, short_path):
    path = str(short_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(path)
        reader.setblocking(False)
        transport, protocol = await loop.create_datagram_endpoint(
            Datagrams, remote_addr=path, family=socket.AF_UNIX
        )
        for _ in range(100):
            transport.sendto(bytes(10_000))
        transport.close()
        for _ in range(100):
            assert len(await loop.sock_recv(reader, 20_000)) == 10_000
        assert await protocol.lost is None


async def test_abort(loop):
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=LOCAL)
    transport.abort()
    assert transport.is_closing()
    assert await protocol.lost is None


async def test_each_datagram_goes_to_the_protocol_of_the_moment(loop):
    """Also if it was received together with those before."""
    received = asyncio.Queue()

    class Handing(asyncio.DatagramProtocol):
        def __init__(self, number: int) -> None:
            self.number = number

        def datagram_received(self, data: bytes, addr: object) -> None:
            received.put_nowait((self.number, data))
            transport.set_protocol(Handing(self.number + 1))

    transport, _ = await loop.create_datagram_endpoint(lambda: Handing(0), local_addr=LOCAL)
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect(address(transport))
        for number in range(4):
            client.send(b"%d" % number)
    for number in range(4):
        assert await received.get() == (number, b"%d" % number)
    transport.close()


async def test_a_queued_datagram_with_an_invalid_address_ends_it(loop, unhandled, short_path):
    """Its address is looked at when it is its turn."""
    path = str(short_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(path)
        reader.setblocking(False)
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.setblocking(False)
        transport, protocol = await loop.create_datagram_endpoint(Datagrams, sock=sender)
        sent = 0
        while transport.get_write_buffer_size() == 0:
            transport.sendto(b"x", path)
            sent += 1
        transport.sendto(b"y", 12345)
        for _ in range(sent):
            await loop.sock_recv(reader, 10)
        assert isinstance(await protocol.lost, TypeError)
        assert unhandled[0]["message"] == "Fatal write error on datagram transport"
        unhandled.clear()


@pytest.mark.skipif(not hasattr(socket, "AF_NETLINK"), reason="Linux has it")
async def test_addresses_of_other_families(loop):
    """The kernel itself is (0, 0), and lists its network interfaces when asked (18)."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
    sock.bind((0, 0))
    sock.setblocking(False)
    async with endpoint(sock=sock) as (transport, protocol):
        transport.sendto(struct.pack("=LHHLLB3x", 20, 18, 0x301, 1, 0, 0), (0, 0))
        data, sender = await protocol.received.get()
        assert len(data) > 16
        assert sender == (0, 0)
