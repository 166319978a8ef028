"""The example programs that define our API run as they are written.

They are the files in `spec_examples`, to the letter. What is changed here, as text: port numbers,
for free ones; and where an example only defines `main`, a last line calls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import erlang_loop
import pytest
from command import PATIENCE, ROOT, environment
from connections import Datagrams, connected
from erlang_loop import ErlangEventLoop

EXAMPLES = Path(__file__).parent / "spec_examples"
CALL_MAIN = "\nasyncio.run(main())\n"

pytestmark = pytest.mark.ours


def example(name: str, port: int | None = None) -> str:
    text = (EXAMPLES / name).read_text()
    if port is not None:
        assert "8888" in text or "9999" in text
        text = text.replace("8888", str(port)).replace("9999", str(port))
    return text


@pytest.fixture
def port(request: pytest.FixtureRequest) -> int:
    """Free for TCP and for UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                udp.bind(tcp.getsockname())
                return udp.getsockname()[1]


@contextlib.contextmanager
def running(program: str) -> Iterator[subprocess.Popen[str]]:
    """The program in a node of its own."""
    process = subprocess.Popen(
        [ROOT / "bin/erlang-loop", "-u", "-c", program],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def finished(program: str) -> str:
    """What the program printed; it ended by itself and well."""
    with running(program) as process:
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        return output


@pytest.mark.parametrize("name", ["sleep.py", "policy.py"])
def test_ways_in(name):
    output = finished(example(name))
    assert output == ("Done!\n" if name == "sleep.py" else "")


def test_tcp_server(port):
    with running(example("tcp_server.py", port) + CALL_MAIN) as server:
        client = connect(port)
        with client:
            client.sendall(b"hello")
            assert client.recv(100) == b"hello"
            name = client.getsockname()
        assert server.stdout.readline() == f"Connection from {name}\n"
        assert server.stdout.readline() == "Received: hello\n"
        assert server.stdout.readline() == "Connection closed\n"


def test_tcp_client(port):
    with socket.create_server(("127.0.0.1", port)) as listener:
        with running(example("tcp_client.py", port) + CALL_MAIN) as client:
            connection, _ = listener.accept()
            with connection:
                question = connection.recv(100)
                connection.sendall(question)
            assert client.stdout.readline() == "Received: Hello, World!\n"
            assert client.wait(PATIENCE) == 0


def connect(port: int) -> socket.socket:
    """Waits for a server that is just starting."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise


def test_udp_echo(port):
    """The server and the client, each in its own node."""
    with running(example("udp_echo_server.py", port)) as server:
        listening = f"UDP Echo Server listening on ('127.0.0.1', {port})\n"
        assert server.stdout.readline() == listening
        output = finished(example("udp_echo_client.py", port)).splitlines()
        assert output == [
            "Sending: Hello UDP!",
            f"Received: Hello UDP! from ('127.0.0.1', {port})",
            "Echo response: Hello UDP!",
        ]
        assert server.stdout.readline().startswith("Received 10 bytes from ('127.0.0.1', ")


def test_udp_endpoint(port):
    with running(example("udp_endpoint.py", port) + CALL_MAIN) as server:
        assert server.stdout.readline() == f"Listening on ('127.0.0.1', {port})\n"
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", port))
            client.send(b"hello")
            assert client.recv(100) == b"hello"
            name = client.getsockname()
        assert server.stdout.readline() == f"Received 'hello' from {name}\n"


async def fragment(loop: asyncio.AbstractEventLoop, name: str, port: int) -> Datagrams:
    """Runs an example that is the inside of a coroutine; the protocol of its endpoint."""
    inside = textwrap.indent(example(name, port), "    ")
    namespace: dict[str, object] = {"MyProtocol": Datagrams}
    text = f"async def fragment(loop):\n{inside}\n    return transport, protocol"
    exec(text, namespace)
    transport, protocol = await namespace["fragment"](loop)
    transport.close()
    await protocol.lost
    return protocol


async def test_protocol_callbacks(loop):
    """Every callback that the example defines is called with what its text says."""
    namespace: dict[str, object] = {"asyncio": asyncio}
    exec(example("udp_callbacks.py"), namespace)
    called: dict[str, tuple[object, ...]] = {}
    lost = loop.create_future()

    class Watched(namespace["MyDatagramProtocol"]):
        def datagram_received(self, data, addr):
            called["datagram_received"] = (data, addr)
            super().datagram_received(data, addr)
            self.transport.abort()

        def connection_lost(self, exc):
            super().connection_lost(exc)
            lost.set_result(exc)

    transport, protocol = await loop.create_datagram_endpoint(Watched, local_addr=("127.0.0.1", 0))
    assert protocol.transport is transport
    protocol.error_received(OSError())
    with socket.socket(type=socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.sendto(b"hello", transport.get_extra_info("sockname"))
        assert await lost is None
        assert called == {"datagram_received": (b"hello", peer.getsockname())}


async def test_unconnected_udp(loop, port):
    await fragment(loop, "udp_unconnected.py", port)


async def test_connected_udp(loop, port):
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", port))
        server.setblocking(False)
        protocol = await fragment(loop, "udp_connected.py", port)
        assert await loop.sock_recv(server, 100) == b"Hello"
        assert protocol.errors.empty()


async def test_broadcast(loop, port):
    """A machine without a network says that it is unreachable; no machine may say "not allowed"."""
    protocol = await fragment(loop, "udp_broadcast.py", port)
    while not protocol.errors.empty():
        assert not isinstance(protocol.errors.get_nowait(), PermissionError)


def test_isolated_loops():
    namespace: dict[str, ErlangEventLoop] = {}
    exec(example("isolated.py"), namespace)
    shared, isolated = namespace["shared_loop"], namespace["isolated_loop"]
    assert shared._loop_handle is None
    assert isolated._loop_handle is not None
    shared.close()
    isolated.close()


def test_isolated_as_the_first_argument():
    with contextlib.closing(ErlangEventLoop(True)) as isolated:
        assert isolated._loop_handle is not None
    with contextlib.closing(ErlangEventLoop(False, spin=0)) as shared:
        assert shared._loop_handle is None
    with pytest.raises(TypeError):
        ErlangEventLoop("yes")
    with pytest.raises(TypeError):
        ErlangEventLoop(True, 0.5)


async def test_the_name_of_the_transport(loop):
    async with connected() as (server, client):
        for end in (server, client):
            assert type(end.transport) is erlang_loop._ErlangSocketTransport


def test_isolated_loops_in_threads():
    """Also what its function answers, which the example itself drops."""
    namespace: dict[str, object] = {}
    exec(example("isolated_threads.py"), namespace)
    assert not namespace["t1"].is_alive()
    assert not namespace["t2"].is_alive()
    assert namespace["run_isolated_tasks"]("mine") == ["mine", "mine"]
