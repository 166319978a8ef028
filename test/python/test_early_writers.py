"""add_writer on an fd that has a reader and can be written to: told without the kernel's watch."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import erlang_loop
import pytest

LIMIT = 60


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    with one, other:
        yield one, other


def run(main: object) -> object:
    loop = erlang_loop.new_event_loop()
    try:
        return loop.run_until_complete(asyncio.wait_for(main, LIMIT))  # type: ignore[arg-type]
    finally:
        loop.close()


def test_it_is_told_again_until_it_is_removed(pair: tuple[socket.socket, socket.socket]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        told = 0
        enough = loop.create_future()

        def can_write() -> None:
            nonlocal told
            told += 1
            if told == 5:
                loop.remove_writer(pair[0])
                enough.set_result(None)

        loop.add_reader(pair[0], lambda: None)
        loop.add_writer(pair[0], can_write)
        assert told == 0, "not from within add_writer"
        await enough
        for _ in range(10):
            await asyncio.sleep(0)
        assert told == 5
        assert loop.remove_reader(pair[0])

    run(main())


def test_removed_before_its_turn(pair: tuple[socket.socket, socket.socket]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(pair[0], lambda: None)
        loop.add_writer(pair[0], pytest.fail, "it was removed")
        assert loop.remove_writer(pair[0])
        assert not loop.remove_writer(pair[0])
        await asyncio.sleep(0.01)
        loop.remove_reader(pair[0])

    run(main())


def test_added_before_the_loop_runs(pair: tuple[socket.socket, socket.socket]) -> None:
    loop = erlang_loop.new_event_loop()
    try:
        loop.add_reader(pair[0], lambda: None)
        loop.add_writer(pair[0], loop.stop)
        loop.run_forever()
    finally:
        loop.close()


def test_added_by_another_thread_while_the_loop_sleeps(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Not allowed by asyncio, and works there: its epoll is told while it waits."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(pair[0], lambda: None)
        written = asyncio.Event()
        thread = threading.Thread(target=loop.add_writer, args=(pair[0], written.set))
        loop.call_later(0.02, thread.start)
        await written.wait()
        loop.remove_writer(pair[0])
        thread.join()

    run(main())


def test_other_fds_get_their_turn(pair: tuple[socket.socket, socket.socket]) -> None:
    """A writer that is added again each time it is told never lets the loop sleep."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        received = asyncio.Event()
        third, fourth = socket.socketpair()
        with third, fourth:
            loop.add_reader(third, received.set)

            def can_write() -> None:
                loop.remove_writer(pair[0])
                loop.add_writer(pair[0], can_write)

            loop.add_reader(pair[0], lambda: None)
            loop.add_writer(pair[0], can_write)
            loop.call_later(0.01, fourth.send, b"hello")
            await received.wait()
            assert third.recv(10) == b"hello"
            loop.remove_reader(third)
            loop.remove_reader(pair[0])
            loop.remove_writer(pair[0])

    run(main())
