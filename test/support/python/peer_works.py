"""What test_peer_pool_executor.py runs in peers."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any


class WantingError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("wanting")


def square(n: int) -> int:
    return n * n


def pid(_: int) -> int:
    return os.getpid()


def echo(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def fail(text: str) -> None:
    raise KeyError(text)


def fail_badly() -> None:
    raise WantingError(1, 2)


def crash() -> None:
    ctypes.string_at(0)


def leave(code: int) -> None:
    os._exit(code)


def wait_for(path: str) -> int:
    while not Path(path).exists():
        time.sleep(0.001)
    return os.getpid()


def meet(here: str, there: str) -> int:
    """Returns when the other one runs, too."""
    Path(here).touch()
    return wait_for(there)


def unpicklable() -> Any:
    return lambda: None


def touch_after(gate: str, done: str) -> None:
    wait_for(gate)
    Path(done).touch()
