"""producer | filter | consumer, as a shell would run them: data, backpressure, exit codes."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE

import pytest

pytestmark = pytest.mark.ours

PRODUCER = "for number in range(200_000): print(number)"
FILTER = "import sys\nfor line in sys.stdin:\n    if line.endswith('7\\n'): print(line, end='')"
CONSUMER = "import sys; print(sum(map(int, sys.stdin))); sys.exit(5)"


async def test_through_pipes_of_the_system(loop):
    """The processes are connected with each other; the loop only waits for them."""
    first_read, first_write = os.pipe()
    second_read, second_write = os.pipe()
    run = asyncio.create_subprocess_exec
    producer = await run(sys.executable, "-c", PRODUCER, stdout=first_write)
    os.close(first_write)
    middle = await run(sys.executable, "-c", FILTER, stdin=first_read, stdout=second_write)
    os.close(first_read)
    os.close(second_write)
    consumer = await run(sys.executable, "-c", CONSUMER, stdin=second_read, stdout=PIPE)
    os.close(second_read)
    output, _ = await consumer.communicate()
    codes = [await process.wait() for process in (producer, middle, consumer)]
    assert int(output) == sum(range(7, 200_000, 10))
    assert codes == [0, 0, 5]


async def test_through_the_loop(loop):
    """Every byte passes through the loop, which must not read faster than it can write."""
    run = asyncio.create_subprocess_exec
    producer = await run(sys.executable, "-c", PRODUCER, stdout=PIPE)
    middle = await run(sys.executable, "-c", FILTER, stdin=PIPE, stdout=PIPE)
    consumer = await run(sys.executable, "-c", CONSUMER, stdin=PIPE, stdout=PIPE)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        count = 0
        while data := await reader.read(65_536):
            count += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        return count

    pumped, _ = await asyncio.gather(
        pump(producer.stdout, middle.stdin),
        pump(middle.stdout, consumer.stdin),
    )
    answer = await consumer.stdout.read()
    codes = [await process.wait() for process in (producer, middle, consumer)]
    assert pumped == sum(len(str(number)) + 1 for number in range(200_000))
    assert int(answer) == sum(range(7, 200_000, 10))
    assert codes == [0, 0, 5]


async def test_consumer_that_leaves_early(loop):
    """As `yes | head`: the producer ends by SIGPIPE."""
    read, write = os.pipe()
    run = asyncio.create_subprocess_exec
    producer = await run("yes", stdout=write)
    os.close(write)
    consumer = await run("head", "-n", "2", stdin=read, stdout=PIPE)
    os.close(read)
    output, _ = await consumer.communicate()
    assert output == b"y\ny\n"
    assert await consumer.wait() == 0
    assert await producer.wait() == -13
