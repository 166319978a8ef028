"""Arrays with other references to their memory, which py_values_SUITE sends and then changes."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

_kept: list[Any] = []
_weak: list[Callable[[], Any]] = []


def make(seed: int) -> Any:
    """An array, a view of it or a container; some of the objects on the way are kept."""
    rng = random.Random(seed)
    _kept.clear()
    _weak.clear()
    arrays = [np.arange(30_000.0)]
    for _ in range(rng.randrange(4)):
        arrays.append(_view(arrays[-1].reshape(-1), rng.randrange(7)))
    for array in arrays:
        match rng.randrange(8):
            case 0:
                _kept.append(array)
            case 1:
                _kept.append(memoryview(array).cast("B"))
            case 2:
                _weak.append(weakref.ref(array))
    last = arrays.pop()
    results = [last, [last], {"a": last}, [last, last], (last, arrays)]
    result = rng.choice(results)
    if rng.randrange(4) == 0:
        _kept.append(result)
    return result


def _view(array: Any, kind: int) -> Any:
    if kind == 0:
        return array[:]
    if kind == 1:
        return array[: len(array) * 3 // 4]
    if kind == 2:
        return array.view("u1")
    if kind == 3:
        return np.frombuffer(memoryview(array), dtype="u1")
    if kind == 4:
        return np.asarray(memoryview(array))
    if kind == 5:
        view = array[:]
        view.flags.writeable = False
        return view
    return array


def change() -> int:
    """Writes to all that can still be reached and written to. Returns how many that were."""
    _kept.extend(array for array in (ref() for ref in _weak) if array is not None)
    return sum(_write(kept) for kept in _kept)


def _write(kept: Any) -> int:
    if isinstance(kept, dict):
        kept = list(kept.values())
    if isinstance(kept, list | tuple):
        return sum(_write(each) for each in kept)
    try:
        kept[:100] = bytes(100) if isinstance(kept, memoryview) else kept[:100] + 1
    except (ValueError, TypeError):
        return 0
    return 1
