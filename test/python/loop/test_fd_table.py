"""How much memory does a watched fd take?"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from both_loops import LOOPS

HIGH = 19_000
LOOP_COUNT = 100


def resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


@pytest.fixture
def high_fd() -> Iterator[int]:
    """The readable end of a pipe, with a number that few processes ever see."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft <= HIGH:
        resource.setrlimit(resource.RLIMIT_NOFILE, (HIGH + 1, hard))
    reader, writer = os.pipe()
    os.dup2(reader, HIGH)
    os.close(reader)
    yield HIGH
    os.close(HIGH)
    os.close(writer)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_does_not_grow_with_the_number_of_the_fd(loop_name, high_fd):
    with contextlib.ExitStack() as stack:
        loops = [LOOPS[loop_name]() for _ in range(LOOP_COUNT)]
        for loop in loops:
            stack.callback(loop.close)
        before = resident()
        for loop in loops:
            loop.add_reader(high_fd, print)
        assert resident() - before < 5_000_000
