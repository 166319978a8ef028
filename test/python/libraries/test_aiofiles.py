"""aiofiles: files through the loop's executor."""

from __future__ import annotations

import asyncio

import aiofiles
import aiofiles.os
import pytest

pytestmark = pytest.mark.ours


async def test_write_and_read_many(loop, tmp_path):
    async def copy(number: int) -> str:
        path = tmp_path / f"{number}.txt"
        async with aiofiles.open(path, "w") as file:
            for line in range(20):
                await file.write(f"{number} {line}\n")
        async with aiofiles.open(path) as file:
            return "".join([line async for line in file])

    contents = await asyncio.gather(*map(copy, range(20)))
    expected = ["".join(f"{number} {line}\n" for line in range(20)) for number in range(20)]
    assert contents == expected


async def test_file_operations(loop, tmp_path):
    async with aiofiles.open(tmp_path / "a", "wb") as file:
        await file.write(bytes(100_000))
        await file.seek(10)
        assert await file.tell() == 10
    assert (await aiofiles.os.stat(tmp_path / "a")).st_size == 100_000
    await aiofiles.os.rename(tmp_path / "a", tmp_path / "b")
    assert await aiofiles.os.listdir(tmp_path) == ["b"]
    with pytest.raises(FileNotFoundError):
        await aiofiles.os.remove(tmp_path / "a")


async def test_temporary_file(loop):
    async with aiofiles.tempfile.TemporaryFile("wb+") as file:
        await file.write(b"temporary")
        await file.seek(0)
        assert await file.read() == b"temporary"
