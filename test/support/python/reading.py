"""What py_channel_SUITE passes channels to."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import io
import threading
from typing import Any

import erlang
import erlang_loop

kept: list[Any] = []


def forget() -> int:
    """Drop what was kept."""
    kept.clear()
    return gc.collect()


def post_to_a_foreign_loop() -> erlang.Atom:
    """Start the thread that posts to asyncio's own loops."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        node: erlang.Atom = runner.run(erlang.async_call("erlang", "node"))
        return node


def thread_all(channel: erlang.Channel) -> list[Any]:
    return list(channel)


async def task_all(channel: erlang.Channel) -> list[Any]:
    return [item async for item in channel]


def asyncio_all(channel: erlang.Channel) -> list[Any]:
    """On asyncio's own loop."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(task_all(channel))


def own_loop_all(channel: erlang.Channel) -> list[Any]:
    """On a loop of this thread."""
    return erlang_loop.run(task_all(channel))


def receive_all(channel: erlang.Channel) -> list[Any]:
    items = []
    while True:
        try:
            items.append(channel.receive())
        except EOFError:
            return items


async def async_receive_all(channel: erlang.Channel) -> list[Any]:
    items = []
    while True:
        try:
            items.append(await channel.async_receive(60))
        except EOFError:
            return items


def types_of(channel: erlang.Channel) -> list[str]:
    return [type(item).__name__ for item in channel]


def threads_share(channel: erlang.Channel, count: int) -> list[int]:
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        parts = pool.map(lambda _: list(channel), range(count))
        return sorted(item for part in parts for item in part)


async def tasks_share(channel: erlang.Channel, count: int) -> list[int]:
    parts = await asyncio.gather(*(task_all(channel) for _ in range(count)))
    return sorted(item for part in parts for item in part)


async def cancelled_readers_lose_nothing(channel: erlang.Channel) -> list[int]:
    """Readers come and go, one of them always waits."""
    taken: list[int] = []

    async def one() -> None:
        taken.append(await channel.async_receive())

    while not channel.closed:
        tasks = [asyncio.create_task(one()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0.001)
        tasks[1].cancel()
        for task in tasks[:2]:
            with contextlib.suppress(asyncio.CancelledError, EOFError):
                await task
        try:
            await tasks[2]
        except EOFError:
            return taken
    return taken + [item async for item in channel]


def fails_after(channel: erlang.Channel, count: int) -> None:
    for _ in range(count):
        channel.receive()
    raise ValueError("enough")


async def fails_later(channel: erlang.Channel, count: int) -> None:
    async for _ in channel:
        count -= 1
        if count == 0:
            raise ValueError("enough")


async def failed_task_is_kept(channel: erlang.Channel, count: int) -> str:
    """Its exception keeps the frame, and the frame the channel."""
    task = asyncio.ensure_future(fails_later(channel, count))
    del channel
    kept.append(task)
    await asyncio.wait([task])
    return repr(task.exception())


def with_block(channel: erlang.Channel) -> None:
    with channel:
        channel.receive()
        raise ValueError("in the block")


async def async_with_block(channel: erlang.Channel) -> None:
    async with channel:
        await channel.async_receive()
        raise ValueError("in the block")


def closes(channel: erlang.Channel) -> str:
    channel.receive()
    channel.close()
    channel.close()
    try:
        channel.receive()
    except ValueError as error:
        return str(error)
    return "no error"


def takes(channel: erlang.Channel, count: int) -> list[Any]:
    return [channel.receive() for _ in range(count)]


def keep(channel: erlang.Channel) -> str:
    kept.append(channel)
    return repr(channel)


def ignore(channel: erlang.Channel) -> None:
    """Read nothing."""


def give_back(channel: erlang.Channel) -> erlang.Channel:
    return channel


def times_out(channel: erlang.Channel) -> list[str]:
    texts = []
    for timeout in (0.01, -1):
        try:
            channel.receive(timeout)
        except (TimeoutError, ValueError) as error:
            texts.append(str(error))
    return [*texts, *asyncio.run(times_out_later(channel))]


async def times_out_later(channel: erlang.Channel) -> list[str]:
    texts = []
    for timeout in (0.01, -1):
        try:
            await channel.async_receive(timeout)
        except (TimeoutError, ValueError) as error:
            texts.append(str(error))
    return texts


async def blocks_the_loop(channel: erlang.Channel) -> str:
    try:
        channel.receive()
    except RuntimeError as error:
        return str(error)
    return "no error"


async def others_run(channel: erlang.Channel) -> bool:
    """A channel that is never empty must not keep the loop."""
    ran = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.02, ran.set_result, None)
    async for _ in channel:
        if ran.done():
            return True
    return False


def survives_a_bad_item(channel: erlang.Channel) -> list[Any]:
    items: list[Any] = []
    while True:
        try:
            items.append(channel.receive())
        except erlang.ConversionError as error:
            items.append(str(error))
        except EOFError:
            return items


def ends_with(channel: erlang.Channel) -> tuple[list[Any], str, Any]:
    items = []
    try:
        for item in channel:
            items.append(item)
    except erlang.Error as error:
        return items, error.kind, error.reason
    return items, "end", None


async def ends_with_later(channel: erlang.Channel) -> tuple[list[Any], str, Any]:
    items = []
    try:
        async for item in channel:
            items.append(item)
    except erlang.Error as error:
        return items, error.kind, error.reason
    return items, "end", None


# Files


def lines(channel: erlang.Channel) -> list[bytes]:
    with channel.file() as file:
        return list(file)


async def lines_later(channel: erlang.Channel) -> list[bytes]:
    async with channel.async_file() as file:
        return [line async for line in file]


def text_lines(channel: erlang.Channel) -> list[str]:
    with io.TextIOWrapper(channel.file(), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def pieces(channel: erlang.Channel, size: int) -> list[bytes]:
    file = channel.file(buffer_size=7)
    return list(iter(lambda: file.read(size), b""))


async def pieces_later(channel: erlang.Channel, size: int) -> list[bytes]:
    file = channel.async_file()
    parts = []
    while part := await file.read(size):
        parts.append(part)
    return parts


def into(channel: erlang.Channel, size: int) -> bytes:
    file, buffer, data = channel.file(), bytearray(size), b""
    while count := file.readinto(buffer):
        data += buffer[:count]
    return data


async def into_later(channel: erlang.Channel, size: int) -> bytes:
    file, buffer, data = channel.async_file(), bytearray(size), b""
    while count := await file.readinto(buffer):
        data += buffer[:count]
    return data


def whole(channel: erlang.Channel) -> bytes:
    return channel.file().read()


async def whole_later(channel: erlang.Channel) -> bytes:
    return await channel.async_file().read()


def no_file(channel: erlang.Channel) -> str:
    try:
        channel.file()
    except TypeError as error:
        return str(error)
    return "no error"


def closes_the_file(channel: erlang.Channel) -> bool:
    file = channel.file()
    file.read(1)
    file.close()
    return channel.closed


def count_bytes(channel: erlang.Channel) -> int:
    return sum(map(len, channel))


def in_a_thread(channel: erlang.Channel) -> list[Any]:
    """Outlives no call: the call waits for it."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(channel))
    thread.start()
    thread.join()
    return found
