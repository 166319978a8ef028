"""The operations themselves, as they run in a thread."""

from __future__ import annotations

import os
import pathlib
from typing import Union

Path = Union[str, "os.PathLike[str]"]


def read_bytes(path: Path) -> bytes:
    return pathlib.Path(path).read_bytes()


def read_text(path: Path, encoding: str = "utf-8") -> str:
    return pathlib.Path(path).read_text(encoding)


def write_bytes(path: Path, data: bytes) -> int:
    return pathlib.Path(path).write_bytes(data)


def write_text(path: Path, text: str, encoding: str = "utf-8") -> int:
    return pathlib.Path(path).write_text(text, encoding)


def stat(path: Path) -> os.stat_result:
    return os.stat(path)


def exists(path: Path) -> bool:
    return os.path.exists(path)


def listdir(path: Path = ".") -> list[str]:
    return os.listdir(path)


def mkdir(path: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    pathlib.Path(path).mkdir(parents=parents, exist_ok=exist_ok)


def remove(path: Path) -> None:
    os.remove(path)


def rename(source: Path, target: Path) -> None:
    os.replace(source, target)
