"""Child processes. The first is not measured: modules are imported for it."""

from __future__ import annotations

import asyncio
import shutil
import time

from bench.registry import Budget, Loop, Sample, Unavailable, begin, case, per_second, require

GROUP = "processes"


@case("subprocess", group=GROUP, unit="processes/s")
async def subprocess(loop: Loop, budget: Budget) -> Sample:
    """create_subprocess_exec of `true` and wait(), one after the other."""
    program = shutil.which("true")
    if program is None:
        raise Unavailable("there is no program `true`")
    await (await asyncio.create_subprocess_exec(program)).wait()
    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        process = await asyncio.create_subprocess_exec(program)
        code = await process.wait()
        require(code == 0, "`true` ended with {}", code)
        count += 1
    return per_second(count, began)


@case("subprocess_pipes", group=GROUP, unit="processes/s")
async def subprocess_pipes(loop: Loop, budget: Budget) -> Sample:
    """`cat` with its stdin and stdout as pipes, using communicate()."""
    program = shutil.which("cat")
    if program is None:
        raise Unavailable("there is no program `cat`")
    message = bytes(range(256)) * 16
    await (await asyncio.create_subprocess_exec(program, stdin=asyncio.subprocess.DEVNULL)).wait()
    end = budget.deadline()
    count = 0
    began = begin()
    while not count or time.perf_counter() < end:
        process = await asyncio.create_subprocess_exec(
            program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate(message)
        require(output == message, "`cat` did not give back what it got")
        count += 1
    return per_second(count, began)
