"""grpc.aio: unary calls and streams, without generated code.

gRPC has its own threads and poller and wakes the loop through a socket.
"""

from __future__ import annotations

import asyncio
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    pytest.skip("there is no gRPC for free-threaded Python", allow_module_level=True)

import grpc.aio

pytestmark = pytest.mark.ours


async def upper(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
    if request == b"refuse":
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused")
    return request.upper()


async def count(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
    for number in range(int(request)):
        yield str(number).encode()


async def total(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
    return str(sum([int(number) async for number in requests])).encode()


async def chat(
    requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request[::-1]


async def never(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
    await asyncio.sleep(3600)
    raise AssertionError("unreachable")


HANDLERS = {
    "Upper": grpc.unary_unary_rpc_method_handler(upper),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Total": grpc.stream_unary_rpc_method_handler(total),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "Never": grpc.unary_unary_rpc_method_handler(never),
}


@asynccontextmanager
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Test", HANDLERS),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as client:
            yield client
    finally:
        await server.stop(None)


async def test_unary(loop):
    async with channel() as client:
        call = client.unary_unary("/Test/Upper")
        answers = await asyncio.gather(*(call(b"word %d" % number) for number in range(100)))
        assert answers == [b"WORD %d" % number for number in range(100)]


async def test_streams(loop):
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(100):
            yield str(number).encode()

    async with channel() as client:
        counted = [int(answer) async for answer in client.unary_stream("/Test/Count")(b"100")]
        assert counted == list(range(100))
        assert await client.stream_unary("/Test/Total")(numbers()) == b"4950"
        answers = [answer async for answer in client.stream_stream("/Test/Chat")(numbers())]
        assert answers == [str(number).encode()[::-1] for number in range(100)]


async def test_errors(loop):
    async with channel() as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary("/Test/Upper")(b"refuse")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary("/Test/Never")(b"", timeout=0.05)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_cancelled_call(loop):
    async with channel() as client:
        call = client.unary_unary("/Test/Never")(b"")
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
