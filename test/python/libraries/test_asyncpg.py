"""asyncpg against a PostgreSQL server of this test run."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

pytestmark = pytest.mark.ours


def connect(postgres: str):
    return asyncpg.connect(host=postgres, user="test", database="postgres")


async def test_pool(loop, postgres):
    async with asyncpg.create_pool(
        host=postgres, user="test", database="postgres", min_size=2, max_size=8
    ) as pool:

        async def double(number: int) -> int:
            return await pool.fetchval("SELECT $1::int * 2", number)

        doubled = await asyncio.gather(*map(double, range(200)))
    assert doubled == [number * 2 for number in range(200)]


async def test_cursor_and_transaction(loop, postgres):
    connection = await connect(postgres)
    try:
        async with connection.transaction():
            await connection.execute("CREATE TEMP TABLE numbers (n int) ON COMMIT DROP")
            rows = [(number,) for number in range(5000)]
            await connection.copy_records_to_table("numbers", records=rows)
            query = "SELECT n FROM numbers ORDER BY n"
            read = [row["n"] async for row in connection.cursor(query, prefetch=100)]
            assert read == list(range(5000))
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.execute(query)
    finally:
        await connection.close()


async def test_large_values(loop, postgres):
    connection = await connect(postgres)
    try:
        big = bytes(range(256)) * 20_000
        assert await connection.fetchval("SELECT $1::bytea", big) == big
    finally:
        await connection.close()


async def test_listen_and_notify(loop, postgres):
    listener, speaker = await connect(postgres), await connect(postgres)
    try:
        heard: asyncio.Queue[str] = asyncio.Queue()

        def note(connection: object, pid: int, channel: str, payload: str) -> None:
            heard.put_nowait(payload)

        await listener.add_listener("news", note)
        for number in range(10):
            await speaker.execute(f"NOTIFY news, '{number}'")
        assert [await heard.get() for _ in range(10)] == [str(number) for number in range(10)]
        await listener.remove_listener("news", note)
    finally:
        await listener.close()
        await speaker.close()


async def test_cancelled_query(loop, postgres):
    """The server stops the query, and the connection can be used again."""
    connection = await connect(postgres)
    try:
        query = asyncio.ensure_future(connection.execute("SELECT pg_sleep(3600)"))
        watcher = await connect(postgres)
        running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
        running += " AND state = 'active'"
        while not await watcher.fetchval(running):
            await asyncio.sleep(0.005)  # Until the server runs it.
        query.cancel()
        with pytest.raises(asyncio.CancelledError):
            await query
        assert await connection.fetchval("SELECT 1") == 1
        assert await watcher.fetchval(running) == 0
        await watcher.close()
    finally:
        await connection.close()


async def test_time_limit(loop, postgres):
    connection = await connect(postgres)
    try:
        with pytest.raises(asyncio.TimeoutError):
            await connection.execute("SELECT pg_sleep(3600)", timeout=0.05)
        assert await connection.fetchval("SELECT 1") == 1
    finally:
        await connection.close()
