"""malloc's state, which decides how fast some loops read."""

from __future__ import annotations


def prime() -> None:
    """Frees one large block, after which glibc serves such blocks from its heap.

    Some loops read into a new object of 256 KiB each time. Until a program has once freed a block
    of that size, each is an mmap and a munmap; whether it has is an accident of its past. So
    all start in the state that is kind to those loops; `--unkind-malloc` forces the other one.
    """
    bytearray(8 * 1024 * 1024)
