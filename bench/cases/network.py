"""Servers other than plain TCP protocols: streams, Unix sockets, UDP, TLS."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from pathlib import Path

from bench import load_client
from bench.cases.tcp import BACKLOG, KIB, Echo, address, all_closed, bare
from bench.registry import Budget, Loop, Sample, WrongReply, case

GROUP = "network"


@case(
    "streams_1k_c100",
    group=GROUP,
    unit="requests/s",
    bare=bare(connections=100, size=KIB),
    checked=True,
)
async def streams_1k_c100(loop: Loop, budget: Budget) -> Sample:
    """Echo of 1 KiB with StreamReader and StreamWriter, 100 connections."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(64 * KIB):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=BACKLOG)
    try:
        return await load_client.ask("echo", address(server), budget, connections=100, size=KIB)
    finally:
        server.close()
        await server.wait_closed()


def bare_unix(budget: Budget) -> Sample:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return bare(kind=f"unix:{folder}/socket", connections=10, size=KIB)(budget)


@case("unix_1k_c10", group=GROUP, unit="requests/s", bare=bare_unix, checked=True)
async def unix_1k_c10(loop: Loop, budget: Budget) -> Sample:
    """Echo of 1 KiB on a Unix socket, 10 connections."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = f"{folder}/socket"
        server = await loop.create_unix_server(Echo, path)
        sample = await load_client.ask("echo", f"unix:{path}", budget, connections=10, size=KIB)
        await all_closed(Echo)
        server.close()
        await server.wait_closed()
        return sample


class EchoDatagrams(asyncio.DatagramProtocol):
    transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(data, addr)


@case(
    "udp_1k_c10",
    group=GROUP,
    unit="requests/s",
    bare=bare(kind="udp:127.0.0.1:0", connections=10, size=KIB),
    checked=True,
)
async def udp_1k_c10(loop: Loop, budget: Budget) -> Sample:
    """Echo of datagrams of 1 KiB, 10 clients."""
    transport, _ = await loop.create_datagram_endpoint(EchoDatagrams, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    try:
        return await load_client.ask(
            "echo", f"udp:127.0.0.1:{port}", budget, connections=10, size=KIB
        )
    finally:
        transport.close()


def certificates(folder: str) -> tuple[ssl.SSLContext, str]:
    """A server's context, and the file with the authority that it is known by."""
    import trustme

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    file = f"{folder}/authority.pem"
    authority.cert_pem.write_to_path(file)
    return context, file


@case("tls_1k_c10", group=GROUP, unit="requests/s", checked=True)
async def tls_1k_c10(loop: Loop, budget: Budget) -> Sample:
    """Echo of 1 KiB over TLS, 10 connections; the client is a Python program."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        context, authority = certificates(folder)
        server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=context, backlog=BACKLOG)
        port = server.sockets[0].getsockname()[1]
        try:
            sample = await ask_tls_client(port, authority, budget)
            await all_closed(Echo)
        finally:
            server.close()
            await server.wait_closed()
        return sample


async def ask_tls_client(port: int, authority: str, budget: Budget) -> Sample:
    import json
    import subprocess

    from bench.contenders import python

    words = (str(port), authority, "10", str(KIB), str(budget.seconds), str(os.getpid()))
    command = [python(), str(Path(__file__).parent.parent / "tls_client.py"), *words]

    def run() -> subprocess.CompletedProcess[str]:
        limit = budget.seconds + load_client.PATIENCE
        return subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)

    done = await asyncio.get_running_loop().run_in_executor(None, run)
    if done.returncode != 0:
        raise WrongReply(done.stderr.strip().splitlines()[-1] if done.stderr else "no reply")
    found = json.loads(done.stdout)
    return Sample(found["rate"], cpu_us=found["server_cpu_us"], p50_us=found["p50_us"])
