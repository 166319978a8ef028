"""anyio: task groups, a TCP listener, processes, threads."""

from __future__ import annotations

import asyncio
import sys
import threading

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel
import anyio.to_process
import anyio.to_thread
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener, TLSStream

pytestmark = pytest.mark.ours


async def test_task_group_cancels_the_rest(loop):
    ended = []

    async def waits() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("waits")

    async def fails() -> None:
        raise KeyError("this one")

    with pytest.raises(BaseException) as caught:  # A group.
        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            await anyio.lowlevel.checkpoint()
            group.start_soon(fails)
    assert [type(error) for error in caught.value.exceptions] == [KeyError]
    assert ended == ["waits"]


async def test_time_limits(loop):
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()


async def serve_until_cancelled(listener: anyio.abc.Listener, task_status) -> None:
    async def echo(client: anyio.abc.ByteStream) -> None:
        async with client:
            async for data in client:
                await client.send(data)

    async with listener:
        task_status.started()
        await listener.serve(echo)


async def test_tcp_listener(loop):
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with anyio.create_task_group() as group:
        await group.start(lambda *, task_status: serve_until_cancelled(listener, task_status))
        big = bytes(range(256)) * 4000
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            async with anyio.create_task_group() as sending:
                sending.start_soon(client.send, big)
                received = await BufferedByteReceiveStream(client).receive_exactly(len(big))
        assert received == big
        group.cancel_scope.cancel()


async def test_tls_listener(loop, certificates):
    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = plain.extra(anyio.abc.SocketAttribute.local_port)
    listener = TLSListener(plain, certificates.server)
    async with anyio.create_task_group() as group:
        await group.start(lambda *, task_status: serve_until_cancelled(listener, task_status))
        stream = await anyio.connect_tcp("localhost", port, ssl_context=certificates.client)
        async with stream:
            assert isinstance(stream, TLSStream)
            await stream.send(b"in secret")
            assert await stream.receive() == b"in secret"
        group.cancel_scope.cancel()


async def test_udp(loop):
    async with await anyio.create_udp_socket(local_host="127.0.0.1") as server:
        port = server.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.create_connected_udp_socket("127.0.0.1", port) as client:
            await client.send(b"question")
            data, sender = await server.receive()
            await server.sendto(data[::-1], *sender)
            assert await client.receive() == b"question"[::-1]


async def test_unix_listener(loop, short_path, unhandled):
    """anyio may set its future twice, on any loop, when the listener is ready for two turns."""
    path = str(short_path / "socket")
    listener = await anyio.create_unix_listener(path)
    async with anyio.create_task_group() as group:
        await group.start(lambda *, task_status: serve_until_cancelled(listener, task_status))
        async with await anyio.connect_unix(path) as client:
            await client.send(b"hello")
            assert await client.receive() == b"hello"
        group.cancel_scope.cancel()
    assert {type(each["exception"]) for each in unhandled} <= {asyncio.InvalidStateError}
    unhandled.clear()


async def test_process(loop):
    code = "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.exit(3)"
    result = await anyio.run_process([sys.executable, "-c", code], input=b"spam", check=False)
    assert (result.returncode, result.stdout) == (3, b"SPAM")


async def test_open_process(loop):
    code = "for line in iter(input, 'end'): print(line[::-1], flush=True)"
    async with await anyio.open_process([sys.executable, "-c", code]) as process:
        output = BufferedByteReceiveStream(process.stdout)
        for word in (b"one", b"two"):
            await process.stdin.send(word + b"\n")
            assert await output.receive_until(b"\n", 100) == word[::-1]
        await process.stdin.send(b"end\n")
        assert await process.wait() == 0


async def test_threads(loop):
    def in_thread() -> tuple[bool, str]:
        answer = anyio.from_thread.run(in_loop, "asked")
        return threading.current_thread() is not threading.main_thread(), answer

    async def in_loop(text: str) -> str:
        await anyio.lowlevel.checkpoint()
        return text.upper()

    assert await anyio.to_thread.run_sync(in_thread) == (True, "ASKED")


async def test_memory_streams(loop):
    send, receive = anyio.create_memory_object_stream[int](5)
    total = 0

    async def produce() -> None:
        async with send:
            for number in range(1000):
                await send.send(number)

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        async with receive:
            async for number in receive:
                total += number
    assert total == sum(range(1000))
