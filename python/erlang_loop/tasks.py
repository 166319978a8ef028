"""The tasks of loops, as Erlang shows them: `py_event_loop:tasks/1` and `py:status/0`."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any

from erlang import Pid

from . import _native, awaits
from .loop.event_loop import all_loops
from .placeholders import named

#: File, line, function.
Frame = tuple[str, int, str]
#: Name, state, what it runs, where it stands (outermost first), the Erlang process that asked for
#: it, and for how many milliseconds that has waited.
Description = tuple[str, str, str, list[Frame], Pid | None, int | None]


def of_running_loop() -> list[Description]:
    """For `py_event_loop:tasks/1`, on the loop itself."""
    return _of(asyncio.get_running_loop())


def of_all_loops() -> list[tuple[int, list[Description]]]:
    """For `py:status/0`, on any thread: each loop's number, and its tasks."""
    return [(loop._number, _of(loop)) for loop in all_loops()]


def describe(task: asyncio.Task[Any]) -> Description:
    """A task that waits and was not submitted from Erlang."""
    return _describe(task, False, [], {})


def _of(loop: Any) -> list[Description]:
    current = asyncio.current_task(loop)
    requests = {id(task): (caller, age) for task, caller, age, _ in loop._request_tasks()}
    thread = sys._current_frames().get(loop._thread_id)
    running = [] if thread is None else frames_of_thread(thread)
    return [_describe(task, task is current, running, requests) for task in asyncio.all_tasks(loop)]


def _describe(
    task: asyncio.Task[Any],
    is_running: bool,
    running: list[FrameType],
    requests: dict[int, tuple[Pid, int]],
) -> Description:
    coroutine = task.get_coro()
    frames = awaits.frames(coroutine)
    if is_running and frames and frames[0] in running:
        # From the task's first frame to what its thread runs.
        frames = running[running.index(frames[0]) :]
    caller, age = requests.get(id(task), (None, None))
    if caller is None and hasattr(task, "get_context"):  # from Python 3.12 on
        caller = _native._caller_in(task.get_context())
    state = "running" if is_running else "waiting"
    what = text(named(coroutine_name, coroutine))
    return (text(task.get_name()), state, what, _shown(frames), caller, age)


def _shown(frames: list[FrameType]) -> list[Frame]:
    return [
        (text(frame.f_code.co_filename), frame.f_lineno or 0, text(frame.f_code.co_name))
        for frame in frames
    ]


def frames_of_thread(frame: FrameType | None) -> list[FrameType]:
    """The stack of a thread, outermost frame first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def coroutine_name(coroutine: object) -> str:
    return getattr(coroutine, "__qualname__", None) or repr(coroutine)


def text(value: object) -> str:
    """As Erlang can have it: a file's name need not be UTF-8, nor any other name."""
    return str(value).encode("utf-8", "backslashreplace").decode()
