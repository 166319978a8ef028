"""Does `bin/erlang-loop` end as python does, whatever its other threads are doing?

Python finalizes while daemon threads, loops that Erlang started and call threads are still there.
In each program here they are inside calls that release the GIL, and ask for it again when Python
does not return it any more.
"""

from __future__ import annotations

import pytest
from command import ERLANG_LOOP, Ended, run, same_as_python

#: Where the threads are when Python finalizes is a matter of chance.
RUNS = 3

#: `busy()` runs in a daemon thread, with `Atom` and `call` for those that ask Erlang.
END = """
import atexit, sys, threading, time

atexit.register(print, "at exit")
threading.Thread(target=busy, daemon=True).start()
time.sleep(0.2)
print("main ends")
sys.exit(4)
"""
EXPECTED = Ended(4, "main ends\nat exit\n", "")

CALLBACKS = """
import asyncio, os, time

def busy():
    loop = asyncio.new_event_loop()
    def again():
        {what}
        loop.call_soon(again)
    again()
    loop.run_forever()
"""
LOGS_TO_A_FILE = """
import asyncio, logging, os
logging.basicConfig(filename=os.devnull, level=logging.INFO)

async def log():
    while True:
        logging.info("on and on")
        await asyncio.sleep(0)

def busy():
    asyncio.run(log())
"""
SLEEPS = CALLBACKS.format(what="time.sleep(0.0003)")
OPENS = CALLBACKS.format(what="open(os.devnull).close()")
STATS = CALLBACKS.format(what="os.stat('/')")

ASKS_ERLANG = """
import sys, time, erlang
from erlang import Atom
sys.modules["program"] = sys.modules["__main__"]
"""
CALLED = """
def busy():
    while True:
        erlang.call("py", "call", [Atom("time"), Atom("sleep"), [0.0003]])
"""
SERVED = """
import asyncio

async def sleeps():
    while True:
        time.sleep(0.0003)
        await asyncio.sleep(0)

def busy():
    erlang.call("py", "call", [Atom("program"), Atom("sleeps"), []])
"""
STREAMED = """
def numbers():
    while True:
        time.sleep(0.0003)
        yield 1

def busy():
    # It discards them.
    init = erlang.call("erlang", "whereis", [Atom("init")])
    options = {Atom("demand"): 1_000_000, Atom("to"): init}
    erlang.call("py", "stream", [Atom("program"), Atom("numbers"), [], {}, options])
"""


@pytest.mark.parametrize("busy", [LOGS_TO_A_FILE, SLEEPS, OPENS, STATS])
def test_loop_in_a_daemon_thread(busy: str) -> None:
    for _ in range(RUNS):
        assert same_as_python("-c", busy + END) == EXPECTED


@pytest.mark.parametrize("busy", [CALLED, SERVED, STREAMED])
def test_code_that_erlang_runs(busy: str) -> None:
    for _ in range(RUNS):
        assert run(ERLANG_LOOP, "-c", ASKS_ERLANG + busy + END) == EXPECTED


NEVER_RUN = """
import asyncio
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
"""
HAS_RUN = """
loop.run_until_complete(asyncio.sleep(0))
loop.add_signal_handler(10, print)
loop.call_later(100, print)
"""


@pytest.mark.parametrize("options", [[], ["-X", "dev"], ["-W", "error"]], ids=" ".join)
@pytest.mark.parametrize("program", [NEVER_RUN, NEVER_RUN + HAS_RUN], ids=["never run", "has run"])
def test_loop_that_is_never_closed(program: str, options: list[str]) -> None:
    assert same_as_python(*options, "-c", program) == Ended(0, "", "")


ASKS_ON = """
class Slow:
    # Called while modules are torn down.
    def __del__(self, sleep=time.sleep):
        sleep(0.1)

slow = Slow()
asks = (
    b"Ask = fun() -> {ok, _} = py:call(time, sleep, [0]) end, "
    b"spawn(fun Loop() -> spawn(Ask), receive after 1 -> Loop() end end). "
)
assert erlang.call("erl_eval", "eval_str", [list(asks)])[0] == "ok"
time.sleep(0.1)
sys.exit(4)
"""


def test_calls_that_come_while_python_finalizes() -> None:
    assert run(ERLANG_LOOP, "-c", ASKS_ERLANG + ASKS_ON) == Ended(4, "", "")
