"""A cache in an ETS table, which Python tasks, threads and Erlang processes share.

bin/erlang-loop examples/ets_cache.py
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import erlang
from erlang import Atom


class Cache:
    """Belongs to the task or thread that creates it, and ends with it, as ETS tables do."""

    def __init__(self) -> None:
        # The process that runs this call creates the table, and passes it to the heir.
        heir = (Atom("heir"), erlang.self(), Atom("cache"))
        options = [Atom("public"), (Atom("read_concurrency"), True), heir]
        self.table = erlang.call("ets", "new", [Atom("cache"), options])

    def get(self, key: Any, default: Any = None) -> Any:
        found = erlang.call("ets", "lookup", [self.table, key])
        return found[0][1] if found else default

    async def async_get(self, key: Any, default: Any = None) -> Any:
        found = await erlang.async_call("ets", "lookup", [self.table, key])
        return found[0][1] if found else default

    async def put(self, key: Any, value: Any) -> None:
        await erlang.async_call("ets", "insert", [self.table, (key, value)])

    async def count(self, key: Any) -> int:
        """One more, however many tasks and processes do the same at this moment."""
        start = (key, 0)
        return int(await erlang.async_call("ets", "update_counter", [self.table, key, 1, start]))


async def slow_square(cache: Cache, number: int) -> int:
    known = await cache.async_get(number)
    if known is None:
        await cache.count("computed")
        known = number * number
        await cache.put(number, known)
    return int(known)


async def main() -> None:
    cache = Cache()
    tag, *_ = await erlang.async_receive()
    assert tag == "ETS-TRANSFER"  # The table is ours.

    for _ in range(3):
        squares = await asyncio.gather(*[slow_square(cache, number) for number in range(10)])
    print(f"{squares} with {await cache.async_get('computed')} computed")

    # Erlang sees what Python has put there, and vice versa.
    await erlang.async_call("ets", "insert", [cache.table, ("from Erlang", Atom("hello"))])
    print(f"a task reads {await cache.async_get('from Erlang')}")

    def body() -> None:
        print(f"a thread reads {cache.get(7)}, and {cache.get('nothing', 'a default')}")

    thread = threading.Thread(target=body)
    thread.start()
    await asyncio.get_running_loop().run_in_executor(None, thread.join)


asyncio.run(main())
