"""`http.response.pathsend`: a file as the body, sent by the kernel."""

from __future__ import annotations

import asyncio
import os
from io import BufferedReader
from typing import Any

from erlang_loop._native import HttpRequest


def open_file(path: str | os.PathLike[str]) -> tuple[BufferedReader, int]:
    """The file and its size."""
    if not os.path.isabs(path):
        raise ValueError("pathsend needs an absolute path")
    file = open(path, "rb")  # noqa: SIM115 - send_file closes it
    return file, os.fstat(file.fileno()).st_size


async def send_file(
    loop: asyncio.AbstractEventLoop,
    transport: Any,
    file: BufferedReader,
    request: HttpRequest,
    has_body: bool,
) -> None:
    """The head is written; sends the file behind it."""
    with file:
        if has_body and os.fstat(file.fileno()).st_size > 0:
            await loop.sendfile(transport, file)
    request._sent_file()
