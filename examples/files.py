"""Files with coroutines and with callbacks: bin/erlang-loop examples/files.py"""

import asyncio
import tempfile
from pathlib import Path

from erlang_loop import files
from erlang_loop.callbacks import CallbackLoop


async def with_coroutines(folder):
    await files.write_text(folder / "numbers", "1\n2\n3\n")
    total = 0
    async with files.open(folder / "numbers") as numbers:
        async for line in numbers:
            total += int(line)
    print(f"the sum is {total}")


def with_callbacks(folder):
    with CallbackLoop() as loop:
        on = files.on(loop)

        def counted(names):
            print(f"there are {len(names)} files")
            on.read_bytes(folder / "none", print, failed)

        def failed(error):
            print(f"that failed: {type(error).__name__}")
            loop.stop()

        on.listdir(folder, counted)
        loop.run_forever()


with tempfile.TemporaryDirectory() as name:
    asyncio.run(with_coroutines(Path(name)))
    with_callbacks(Path(name))
