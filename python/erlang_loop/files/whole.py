"""Operations on whole files and on folders, for coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from . import blocking
from .blocking import Path

T = TypeVar("T")


async def in_pool(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Run in the default executor of the running loop, with the caller's context variables."""
    work = functools.partial(contextvars.copy_context().run, function, *args, **options)
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def read_bytes(path: Path) -> bytes:
    """Read a whole file."""
    return await in_pool(blocking.read_bytes, path)


async def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a whole file as text."""
    return await in_pool(blocking.read_text, path, encoding)


async def write_bytes(path: Path, data: bytes) -> int:
    """Replace the contents of a file; return the number of bytes."""
    return await in_pool(blocking.write_bytes, path, data)


async def write_text(path: Path, text: str, encoding: str = "utf-8") -> int:
    """Replace the contents of a file; return the number of characters."""
    return await in_pool(blocking.write_text, path, text, encoding)


async def stat(path: Path) -> os.stat_result:
    """Like `os.stat`."""
    return await in_pool(blocking.stat, path)


async def exists(path: Path) -> bool:
    """Whether a file or folder of this name exists."""
    return await in_pool(blocking.exists, path)


async def listdir(path: Path = ".") -> list[str]:
    """The names in a folder, in no particular order."""
    return await in_pool(blocking.listdir, path)


async def mkdir(path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    """Create a folder, like `pathlib.Path.mkdir`."""
    await in_pool(blocking.mkdir, path, parents=parents, exist_ok=exist_ok)


async def remove(path: Path) -> None:
    """Remove a file."""
    await in_pool(blocking.remove, path)


async def rename(source: Path, target: Path) -> None:
    """Rename a file; replaces a file that has the new name."""
    await in_pool(blocking.rename, source, target)
