"""Executors: blocking work beside the loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest
from connections import eventually


async def test_1000_calls(loop):
    results = await asyncio.gather(*(loop.run_in_executor(None, abs, -n) for n in range(1000)))
    assert results == list(range(1000))


async def test_to_thread(loop):
    assert await asyncio.to_thread(threading.current_thread) is not threading.current_thread()


async def test_errors(loop):
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, lambda: 1 / 0)


async def test_own_executor(loop):
    with concurrent.futures.ThreadPoolExecutor(1, "mine") as pool:
        name = await loop.run_in_executor(pool, lambda: threading.current_thread().name)
    assert name.startswith("mine")


async def test_default_executor(loop):
    pool = concurrent.futures.ThreadPoolExecutor(1, "default")
    loop.set_default_executor(pool)
    name = await loop.run_in_executor(None, lambda: threading.current_thread().name)
    assert name.startswith("default")
    with pytest.raises(TypeError):
        loop.set_default_executor(object())


async def test_loop_goes_on_meanwhile(loop):
    """A thread that blocks outside Python does not hold the loop."""
    begun, go_on = threading.Event(), threading.Event()
    blocked = loop.run_in_executor(None, lambda: (begun.set(), go_on.wait()))
    await eventually(begun.is_set)
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert not blocked.done()
    go_on.set()
    await blocked


async def test_shutdown(loop):
    assert await loop.run_in_executor(None, abs, -1) == 1
    await loop.shutdown_default_executor()
    with pytest.raises(RuntimeError):
        await loop.run_in_executor(None, abs, -1)


async def test_cancelled_waiting(loop):
    release = threading.Event()
    future = loop.run_in_executor(None, release.wait)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(future, 0.01)
    release.set()
