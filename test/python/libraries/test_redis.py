"""redis-py against a Redis server of this test run."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio
import redis.exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

pytestmark = pytest.mark.ours


async def test_commands_at_once(loop, redis_socket):
    async with redis.asyncio.Redis(unix_socket_path=redis_socket) as client:
        await client.delete("count")
        await asyncio.gather(*(client.incr("count") for _ in range(50)))
        assert await client.get("count") == b"50"


async def test_pipeline(loop, redis_socket):
    async with redis.asyncio.Redis(unix_socket_path=redis_socket) as client:
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.delete("list")
            for number in range(1000):
                pipeline.rpush("list", number)
            pipeline.lrange("list", 0, -1)
            answers = await pipeline.execute()
        assert answers[-1] == [str(number).encode() for number in range(1000)]


async def test_large_value(loop, redis_socket):
    async with redis.asyncio.Redis(unix_socket_path=redis_socket) as client:
        big = bytes(range(256)) * 40_000
        await client.set("big", big)
        assert await client.get("big") == big


async def test_publish_and_subscribe(loop, redis_socket):
    async with redis.asyncio.Redis(unix_socket_path=redis_socket) as client:
        async with client.pubsub() as channel:
            await channel.subscribe("news")
            assert (await channel.get_message(timeout=10))["type"] == "subscribe"
            for number in range(100):
                await client.publish("news", number)
            heard = []
            async for message in channel.listen():
                heard.append(int(message["data"]))
                if len(heard) == 100:
                    break
            assert heard == list(range(100))
            await channel.unsubscribe("news")


async def test_cancelled_wait(loop, redis_socket):
    """A blocking pop is cancelled; the client goes on with another connection."""
    async with redis.asyncio.Redis(unix_socket_path=redis_socket) as client:
        await client.delete("empty")
        waiting = asyncio.ensure_future(client.blpop("empty"))
        while (await client.info("clients"))["blocked_clients"] == 0:
            await asyncio.sleep(0.001)  # Until the server has it.
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await client.ping()


async def test_server_that_is_not_there(loop, tmp_path):
    once = Retry(NoBackoff(), 0)
    path = str(tmp_path / "no server")
    async with redis.asyncio.Redis(unix_socket_path=path, retry=once) as client:
        with pytest.raises(redis.exceptions.ConnectionError):
            await client.ping()
