"""An idle loop: does it cost nothing, and does the VM wait for it?"""

from __future__ import annotations

import asyncio
import socket
import time

import pytest


async def idle(seconds: float) -> float:
    """The share of a CPU that the whole process uses meanwhile."""
    cpu, clock = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    return (time.process_time() - cpu) / (time.monotonic() - clock)


async def tick(loop, times: int) -> tuple[int, int]:
    """How often the loop parks and waits by itself, for `times` timers that are far."""
    before = loop._counters()
    for _ in range(times):
        await asyncio.sleep(0.05)
    after = loop._counters()
    return after["parks"] - before["parks"], after["polls"] - before["polls"]


async def test_pending_timer_costs_nothing(loop):
    far = loop.call_later(3600, print)
    assert await idle(2) < 0.02
    far.cancel()


async def test_open_connections_cost_nothing(loop):
    pairs = [socket.socketpair() for _ in range(100)]
    for near, _ in pairs:
        loop.add_reader(near, print)
    assert await idle(1) < 0.03
    for near, far in pairs:
        loop.remove_reader(near)
        near.close()
        far.close()


@pytest.mark.ours
async def test_parked_through_the_vm(loop):
    """A loop that sleeps long is woken by an Erlang process, not by a wait of its own."""
    parks, polls = await tick(loop, 3)
    assert parks >= 3
    assert polls < 30


@pytest.mark.ours
async def test_events_of_a_parked_loop(loop):
    """Data, a wake from a thread and a timer each reach a loop that is parked."""
    near, far = socket.socketpair()
    near.setblocking(False)
    for _ in range(5):
        parks = loop._counters()["parks"]
        loop.run_in_executor(None, send_when_parked, loop, parks, far)
        assert await loop.sock_recv(near, 1) == b"x"
        assert loop._counters()["parks"] > parks
    near.close()
    far.close()


def send_when_parked(loop, parks: int, sock: socket.socket) -> None:
    time.sleep(0.1)  # Longer than the loop waits by itself, also on a busy machine.
    sock.send(b"x")
