"""Do file operations complete without blocking the loop?"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading

import pytest
from erlang_loop import files
from erlang_loop.files import blocking, whole
from fronts import run


async def test_whole_files(loop, tmp_path):
    path = tmp_path / "file"
    assert await files.write_text(path, "grüße") == 5
    assert await files.read_text(path) == "grüße"
    assert await files.read_bytes(path) == "grüße".encode()
    assert await files.write_bytes(path, b"abc") == 3
    assert (await files.stat(path)).st_size == 3
    assert await files.exists(path)
    await files.rename(path, tmp_path / "other")
    assert await files.listdir(tmp_path) == ["other"]
    await files.remove(tmp_path / "other")
    assert not await files.exists(tmp_path / "other")
    await files.mkdir(tmp_path / "a" / "b", parents=True)
    assert await files.listdir(tmp_path) == ["a"]


async def test_errors_are_raised_at_the_await(loop, tmp_path):
    with pytest.raises(FileNotFoundError):
        await files.read_bytes(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        await files.open(tmp_path / "none")
    with pytest.raises(FileExistsError):
        await files.mkdir(tmp_path)
    with pytest.raises(ValueError, match="mode"):
        await files.open(tmp_path / "file", "nonsense")


async def test_an_open_file(loop, tmp_path):
    path = tmp_path / "lines"
    async with files.open(path, "w+") as file:
        assert await file.write("one\ntwo\nthree\n") == 14
        await file.sync()
        assert path.read_text() == "one\ntwo\nthree\n"
        await file.seek(0)
        assert await file.readline() == "one\n"
        assert [line async for line in file] == ["two\n", "three\n"]
        await file.seek(0)
        assert await file.read(3) == "one"
        assert await file.truncate(3) == 3
        await file.flush()
        assert await file.tell() == 3
        assert file.name == str(path)
        assert file.fileno() > 0
    assert file.closed
    assert path.read_text() == "one"
    await file.close()
    with pytest.raises(ValueError, match="closed"):
        await file.read()


async def test_binary_files(loop, tmp_path):
    file = await files.open(tmp_path / "file", "wb+")
    async with file:
        await file.write(b"a\nb\n")
        await file.seek(0)
        assert await file.readlines() == [b"a\n", b"b\n"]


async def test_the_loop_goes_on_meanwhile(loop, tmp_path):
    """A slow file: a pipe without a writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = asyncio.ensure_future(files.read_text(pipe))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not reading.done()
    await files.write_text(pipe, "came")
    assert await reading == "came"


async def test_operations_keep_their_order(loop, tmp_path):
    async with files.open(tmp_path / "file", "w") as file:
        await asyncio.gather(*(file.write(f"{number} ") for number in range(100)))
    written = (tmp_path / "file").read_text().split()
    assert written == [str(number) for number in range(100)]


async def test_a_cancelled_operation_is_waited_for(loop, tmp_path):
    """Its thread goes on: the next operation must not run beside it."""
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()
    async with files.open(tmp_path / "file", "w") as file:

        def slow() -> None:
            begun.set()
            go_on.wait()
            order.append("first")

        first = asyncio.ensure_future(file._do(slow))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        first.cancel()
        second = asyncio.ensure_future(file._do(order.append, "second"))
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
    assert order == ["first", "second"]


async def test_a_cancelled_open_leaves_no_file(loop, tmp_path, monkeypatch):
    """`leaks.py` would find its fd."""
    begun, go_on = threading.Event(), threading.Event()
    opened: list[object] = []
    real = files.file.builtins.open

    def slow_open(*args: object) -> object:
        begun.set()
        go_on.wait()
        opened.append(real(*args))
        return opened[0]

    monkeypatch.setattr(files.file.builtins, "open", slow_open)
    opening = asyncio.ensure_future(files.open(tmp_path / "file", "w")._open())
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    monkeypatch.undo()
    opening.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert opened[0].closed


async def test_contexts(loop):
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert await whole.in_pool(variable.get) == "mine"


@pytest.mark.ours
def test_for_callbacks(callbacks, tmp_path):
    answers: list[object] = []
    path = tmp_path / "file"
    on = files.on(callbacks)

    def written(count: int) -> None:
        answers.append(count)
        on.read_bytes(path, read)

    def read(data: bytes) -> None:
        answers.append(data)
        on.read_text(path, lambda text: (answers.append(text), on.stat(path, seen)))

    def seen(status: os.stat_result) -> None:
        answers.append(status.st_size)
        on.rename(path, tmp_path / "other", renamed)

    def renamed(_none: None) -> None:
        on.listdir(tmp_path, lambda names: (answers.append(names), on.exists(path, there)))

    def there(exists: bool) -> None:
        answers.append(exists)
        on.write_bytes(path, b"x", lambda count: (answers.append(count), on.remove(path, removed)))

    def removed(_none: None) -> None:
        callbacks.stop()

    on.write_text(path, "text", written)
    run(callbacks)
    assert answers == [4, b"text", "text", 4, ["other"], False, 1]
    assert not path.exists()


@pytest.mark.ours
def test_errors_for_callbacks(callbacks, tmp_path):
    errors: list[BaseException] = []
    files.on(callbacks).read_bytes(
        tmp_path / "none", print, lambda error: (errors.append(error), callbacks.stop())
    )
    run(callbacks)
    assert isinstance(errors[0], FileNotFoundError)


@pytest.mark.ours
def test_both_front_ends_have_the_same_operations():
    offered = {name for name in vars(files.CallbackFiles) if not name.startswith("_")}
    assert offered == {name for name in vars(blocking) if name in files.__all__} - {"mkdir"}
