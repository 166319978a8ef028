"""nest_asyncio: a loop that runs inside one of its own callbacks.

It changes asyncio for the whole process, so each program is one of its own, here and on asyncio.
"""

from __future__ import annotations

import sys

import pytest
from command import same_as_python

pytestmark = pytest.mark.ours

PACKAGES = [
    pytest.param(
        "nest_asyncio",
        marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="not for later Pythons"),
    ),
    "nest_asyncio2",
]

START = """
import asyncio, threading, {package} as nest_asyncio

async def later(value):
    await asyncio.sleep(0.001)
    return value
"""


def prints(package: str, code: str, expected: str) -> None:
    ended = same_as_python("-c", START.format(package=package) + code)
    assert (ended.code, ended.out, ended.err) == (0, expected, "")


INSIDE = """
async def main():
    nest_asyncio.apply()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    print(loop.run_until_complete(later(1)), asyncio.run(later(2)))
    print(asyncio.current_task() is task, asyncio.get_running_loop() is loop, loop.is_running())
    return await later(3)

print(asyncio.run(main()))
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_task_can_run_its_own_loop(package: str) -> None:
    prints(package, INSIDE, "1 2\nTrue True True\n3\n")


OTHERS = """
async def count(seen):
    for number in range(5):
        seen.append(number)
        await asyncio.sleep(0)

async def main():
    seen = []
    others = asyncio.ensure_future(count(seen))
    asyncio.run(later(0))
    print(seen, others.done())

nest_asyncio.apply()
asyncio.run(main())
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_other_tasks_go_on_meanwhile(package: str) -> None:
    prints(package, OTHERS, "[0, 1, 2, 3, 4] True\n")


SOCKETS = """
async def echo(reader, writer):
    writer.write(await reader.readline())
    writer.close()

def ask(address):
    async def talk():
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"hello\\n")
        answer = await reader.readline()
        writer.close()
        return answer
    return asyncio.run(talk())

async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    print(ask(address), ask(address))
    server.close()

nest_asyncio.apply()
asyncio.run(main())
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_connections_are_served_meanwhile(package: str) -> None:
    """As in notebooks and in libraries with a blocking front."""
    prints(package, SOCKETS, "b'hello\\n' b'hello\\n'\n")


ERRORS = """
async def fail():
    await asyncio.sleep(0)
    raise ValueError("inside")

async def main_with_stop():
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
    await asyncio.sleep(3600)

async def main():
    loop = asyncio.get_running_loop()
    for coroutine in (fail(), asyncio.wait_for(asyncio.sleep(3600), 0.001)):
        try:
            loop.run_until_complete(coroutine)
        except Exception as error:
            print(type(error).__name__, error)
    return "goes on"

nest_asyncio.apply()
print(asyncio.run(main()))
loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(main_with_stop())
except RuntimeError as error:
    print(error)
print(loop.is_running())
loop.close()
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_errors_inside_are_raised_there(package: str) -> None:
    expected = (
        "ValueError inside\nTimeoutError \ngoes on\n"
        "Event loop stopped before Future completed.\nFalse\n"
    )
    prints(package, ERRORS, expected)


THREADS = """
async def main():
    nest_asyncio.apply()
    return await later(1)

print(asyncio.run(main()))

def elsewhere():
    loop = asyncio.new_event_loop()
    try:
        print(loop.run_until_complete(later(2)))
        loop.call_soon(loop.stop)
        loop.run_forever()
        print("stopped")
        loop.call_soon(print, "one turn")
        loop.stop()
        loop.run_forever()
    finally:
        loop.close()

thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_loops_that_are_made_later_run_as_before(package: str) -> None:
    """The methods of our class would be replaced by ones that wait on a selector."""
    prints(package, THREADS, "1\n2\nstopped\none turn\n")
