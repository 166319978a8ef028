"""Unix sockets: streams, paths, abstract names."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys

import pytest
from connections import Recorder, echo


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = os.urandom(300_000)
    writer.write(data)
    assert await reader.readexactly(len(data)) == data
    writer.close()
    await writer.wait_closed()


async def test_streams(loop, short_path):
    path = short_path / "socket"
    async with await asyncio.start_unix_server(echo, path) as server:
        assert stat.S_ISSOCK(path.stat().st_mode)
        await asyncio.gather(*[talk(*await asyncio.open_unix_connection(path)) for _ in range(20)])
        server.close()
        await server.wait_closed()


async def test_abstract_name(loop):
    name = f"\0erlang_loop-{os.getpid()}-{id(loop)}"
    async with await asyncio.start_unix_server(echo, name) as server:
        reader, writer = await asyncio.open_unix_connection(name)
        assert writer.get_extra_info("peername") == name.encode()
        await talk(reader, writer)
        server.close()
        await server.wait_closed()


async def test_given_sockets(loop, short_path):
    path = str(short_path / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    async with await asyncio.start_unix_server(echo, sock=listener) as server:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        await talk(*await asyncio.open_unix_connection(sock=sock))
        server.close()
        await server.wait_closed()


async def test_stale_socket_file_is_replaced(loop, short_path):
    path = short_path / "socket"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with await asyncio.start_unix_server(echo, path):
        await talk(*await asyncio.open_unix_connection(path))


async def test_refused(loop, short_path):
    with pytest.raises(FileNotFoundError):
        await loop.create_unix_connection(Recorder, str(short_path / "nothing"))
    path = short_path / "file"
    path.write_text("not a socket")
    with pytest.raises(ConnectionRefusedError):
        await loop.create_unix_connection(Recorder, str(path))
    with pytest.raises(OSError):
        await loop.create_unix_server(Recorder, str(short_path))


@pytest.mark.skipif(sys.version_info < (3, 13), reason="cleanup_socket is new in 3.13")
async def test_socket_file_is_removed(loop, short_path):
    path = short_path / "socket"
    server = await asyncio.start_unix_server(echo, path)
    server.close()
    await server.wait_closed()
    assert not path.exists()


async def test_peer_credentials(loop, short_path):
    """The transport's socket answers options, as servers ask for them."""
    near, far = socket.socketpair()
    _, client = await loop.create_unix_connection(Recorder, sock=near)
    _, server = await loop.connect_accepted_socket(Recorder, far)
    sock = server.transport.get_extra_info("socket")
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    assert int.from_bytes(credentials[:4], sys.byteorder) == os.getpid()
    client.transport.close()
    await server.lost


async def test_only_sockets_are_replaced(loop, short_path):
    """A file, a folder or a FIFO at the path belongs to another program, and stays."""
    file = short_path / "file"
    file.write_text("precious")
    folder = short_path / "folder"
    folder.mkdir()
    fifo = short_path / "fifo"
    os.mkfifo(fifo)
    for path in (file, folder, fifo):
        with pytest.raises(OSError):
            await loop.create_unix_server(Recorder, str(path))
    assert file.read_text() == "precious"
    assert folder.is_dir()
    assert fifo.is_fifo()
