"""File operations that do not block the loop: they run in its thread pool.

text = await files.read_text("settings.toml")

async with files.open("log.txt", "a") as log:
    await log.write("a line\\n")

For a CallbackLoop the same operations take a callback: `files.on(loop)`.
"""

from .file import AsyncFile
from .file import open_file as open  # noqa: A004
from .of_callbacks import CallbackFiles, on
from .whole import (
    exists,
    listdir,
    mkdir,
    read_bytes,
    read_text,
    remove,
    rename,
    stat,
    write_bytes,
    write_text,
)

__all__ = [
    "AsyncFile",
    "CallbackFiles",
    "exists",
    "listdir",
    "mkdir",
    "on",
    "open",
    "read_bytes",
    "read_text",
    "remove",
    "rename",
    "stat",
    "write_bytes",
    "write_text",
]
