"""The Python half of model_workers.escript: a model whose runtime crashes on some inputs."""

from __future__ import annotations

import ctypes
import os

#: A real worker loads its weights here, once in its process.
WEIGHTS = [3, 1, 4, 1, 5]


def predict(text: str) -> tuple[int, int]:
    """The prediction, and the process that computed it."""
    if text == "poison":
        # As a bug in an extension module would.
        ctypes.string_at(0)
    return os.getpid(), sum(weight * ord(char) for weight, char in zip(WEIGHTS, text))
