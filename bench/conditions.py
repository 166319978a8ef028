"""The same conditions for every contender, before it begins."""

from __future__ import annotations

import resource


def prepare() -> None:
    _prime_malloc()
    _allow_many_fds()


def _prime_malloc() -> None:
    """Frees one large block, after which glibc serves such blocks from its heap.

    Some loops read into a new object of 256 KiB each time. Until a program has once freed a block
    of that size, each is an mmap and a munmap. So all contenders start in the state that is
    fast for those loops.
    """
    bytearray(8 * 1024 * 1024)


def _allow_many_fds() -> None:
    """As many as there may be: a thousand connections are more than the usual limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
