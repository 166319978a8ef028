"""Python asks Erlang: calls from coroutines and threads, and messages."""

from __future__ import annotations

import asyncio
import statistics
import time

from bench.registry import Budget, Loop, Sample, case, require

GROUP = "erlang"
OURS = ("erlang_loop",)


def sample(taken: list[float], began: float) -> Sample:
    passed = time.perf_counter() - began
    return Sample(len(taken) / passed, p50_us=statistics.median(taken) * 1e6)


def add_async_calls(tasks: int) -> None:
    async def run(loop: Loop, budget: Budget) -> Sample:
        import erlang

        taken: list[float] = []
        end = budget.deadline()

        async def ask() -> None:
            number = 0
            now = time.perf_counter()
            while not number or now < end:
                number += 1
                reply = await erlang.async_call("erlang", "abs", [-number])
                require(reply == number, "{} instead of {}", reply, number)
                before, now = now, time.perf_counter()
                taken.append(now - before)

        began = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(tasks)))
        return sample(taken, began)

    who = "1 task" if tasks == 1 else f"{tasks} tasks"
    run.__doc__ = f"erlang.async_call of a function, {who}."
    name = f"async_call_{tasks}"
    case(name, group=GROUP, unit="calls/s", contenders=OURS, counts=False)(run)


for number in (1, 10, 100):
    add_async_calls(number)


@case("thread_call", group=GROUP, unit="calls/s", contenders=OURS, counts=False)
async def thread_call(loop: Loop, budget: Budget) -> Sample:
    """erlang.call of a function, in a thread other than the loop's."""
    import erlang

    def ask() -> Sample:
        taken: list[float] = []
        end = budget.deadline()
        began = now = time.perf_counter()
        while not taken or now < end:
            reply = erlang.call("erlang", "abs", [-len(taken)])
            require(reply == len(taken), "{} instead of {}", reply, len(taken))
            before, now = now, time.perf_counter()
            taken.append(now - before)
        return sample(taken, began)

    return await loop.run_in_executor(None, ask)


@case("message", group=GROUP, unit="messages/s", contenders=OURS, counts=False)
async def message(loop: Loop, budget: Budget) -> Sample:
    """erlang.send to the task's own pid, and erlang.async_receive."""
    import erlang

    here = erlang.self()
    taken: list[float] = []
    end = budget.deadline()
    began = now = time.perf_counter()
    while not taken or now < end:
        erlang.send(here, len(taken))
        got = await erlang.async_receive()
        require(got == len(taken), "{} instead of {}", got, len(taken))
        before, now = now, time.perf_counter()
        taken.append(now - before)
    return sample(taken, began)
