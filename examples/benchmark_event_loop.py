"""Timers, callbacks and I/O on ErlangEventLoop, with asyncio's own loop beside it:

bin/erlang-loop examples/benchmark_event_loop.py [ROUNDS]

The loops take turns, so that a noisy neighbour disturbs both; each figure is the median of its
rounds. bench/ measures whole programs, in processes of their own.
"""

import asyncio
import socket
import statistics
import sys
import threading
import time
from functools import partial

from erlang_loop import ErlangEventLoop

BATCH = 10_000
BYTES = 50
UNTIL_THE_LOOP_WAITS = 0.002


def timers(loop):
    """How many timers a second the loop starts and runs. They are due before all are started."""
    return per_second(loop, partial(loop.call_later, 0.001))


def callbacks(loop):
    """How many callbacks a second the loop schedules and runs."""
    return per_second(loop, loop.call_soon)


def per_second(loop, schedule):
    left = BATCH

    def callback():
        nonlocal left
        left -= 1
        if left == 0:
            loop.stop()

    started = time.perf_counter()
    for _ in range(BATCH):
        schedule(callback)
    loop.run_forever()
    return BATCH / (time.perf_counter() - started)


def latency(loop):
    """How many milliseconds after a thread has sent a byte the waiting loop calls its reader."""
    reader, writer = socket.socketpair()
    taken = threading.Semaphore()
    sent = []
    late = []

    def send():
        for _ in range(BYTES):
            taken.acquire()
            time.sleep(UNTIL_THE_LOOP_WAITS)
            sent.append(time.perf_counter())
            writer.send(b"x")

    def on_byte():
        late.append(time.perf_counter() - sent.pop())
        reader.recv(1)
        taken.release()
        if len(late) == BYTES:
            loop.stop()

    sender = threading.Thread(target=send)
    with reader, writer:
        loop.add_reader(reader, on_byte)
        sender.start()
        loop.run_forever()
        sender.join()
        loop.remove_reader(reader)
    return statistics.median(late) * 1000


FIGURES = {
    "Timer throughput": (timers, "{:,.0f} timers/sec"),
    "Callback dispatch": (callbacks, "{:,.0f} callbacks/sec"),
    "I/O ready detection": (latency, "{:.3f} ms latency"),
}


def main(rounds=10):
    loops = [ErlangEventLoop(), asyncio.SelectorEventLoop()]
    print(f"{'':20} {'ErlangEventLoop':>26} {'asyncio':>26}")
    for name, (figure, form) in FIGURES.items():
        measured = zip(*[[figure(loop) for loop in loops] for _ in range(rounds)])
        columns = [form.format(statistics.median(values)) for values in measured]
        print(f"{name + ':':20} {columns[0]:>26} {columns[1]:>26}")
    for loop in loops:
        loop.close()


main(*map(int, sys.argv[1:]))
