"""Which loop a program in a node gets that chooses none. Suites call it."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from types import FrameType


def kinds() -> list[str]:
    """By run, Runner and new_event_loop. asyncio is imported here and not before."""
    import asyncio

    async def running() -> str:
        await asyncio.sleep(0.001)
        return type(asyncio.get_running_loop()).__name__

    with asyncio.Runner() as runner:
        new = asyncio.new_event_loop()
        new.close()
        return [asyncio.run(running()), runner.run(running()), type(new).__name__]


def of_the_main_thread() -> str:
    """By get_event_loop, which makes one on the main thread before Python 3.14."""
    import asyncio

    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:
        return "none"
    loop.close()
    asyncio.set_event_loop(None)
    return type(loop).__name__


def chosen() -> str:
    """The program's own choice holds."""
    import asyncio

    async def running() -> str:
        return type(asyncio.get_running_loop()).__name__

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(running())


def import_side_by_side() -> list[str]:
    """One thread imports asyncio, another has begun with `erlang_loop` and waits for that."""
    failed: list[str] = []
    begun = threading.Event()

    def delay(frame: FrameType, event: str, _argument: object) -> None:
        """Called as code of the first thread begins: asyncio goes on when the other waits."""
        if event == "call" and frame.f_globals.get("__name__") == "asyncio":
            sys.setprofile(None)
            begun.set()
            while not waits_for_an_import(other):
                time.sleep(0.001)

    def load(name: str) -> None:
        if name == "asyncio":
            sys.setprofile(delay)
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed.append(repr(error))

    first, other = (threading.Thread(target=load, args=(n,)) for n in ("asyncio", "erlang_loop"))
    first.start()
    begun.wait()
    other.start()
    for thread in (first, other):
        thread.join()
    return failed + kinds()


def waits_for_an_import(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "acquire"
