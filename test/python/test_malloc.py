"""Is memory as quick to get in a node as in python? The VM's settings of malloc would slow it."""

from __future__ import annotations

import ctypes
import os
import platform

import pytest

SETTINGS = {"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}

pytestmark = [
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc only"),
    pytest.mark.skipif(not SETTINGS.isdisjoint(os.environ), reason="the environment has its own"),
]


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks")] + [
        (f"rest{number}", ctypes.c_size_t) for number in range(6)
    ]


def mapped_blocks() -> int:
    """How many blocks malloc has got by mmap."""
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is None:
        pytest.skip("a glibc before 2.33 cannot tell")
    function.restype = Mallinfo2
    return function().hblks


def test_read_buffers_are_not_mapped_each_time():
    """asyncio's TLS reads into a new buffer of 256 KiB for each record that comes."""
    before = mapped_blocks()
    buffers = [bytearray(256 * 1024) for _ in range(10)]
    assert mapped_blocks() - before < len(buffers)
    del buffers
