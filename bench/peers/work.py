"""What the figures of peers run. Executors import it by name in their processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def increment(number: int) -> int:
    return number + 1


async def increment_later(number: int) -> int:
    return number + 1


def identity(value: Any) -> Any:
    return value


def filled_array(size: int) -> NDArray[np.float64]:
    import erlang
    import numpy as np

    array: NDArray[np.float64] = np.frombuffer(
        memoryview(erlang.SharedBuffer(8 * size)), np.float64
    )
    array.fill(1.0)
    return array


def first(array: NDArray[np.float64]) -> float:
    return float(array[0])


def compute(milliseconds: float) -> int:
    """Uses this much CPU time of its thread."""
    end = time.thread_time_ns() + int(milliseconds * 1e6)
    turns = 0
    while time.thread_time_ns() < end:
        turns += 1
    return turns
