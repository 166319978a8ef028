"""Children that `os.fork` makes of a node: the Python code that forked, and nothing else.

`erlang_loop_default` registers `before` and `in_child`. Native code calls `end` and
`end_callback` where a child would return to the node, and exits with the status they return
(`native/py_nif/src/cpython/process/forked.rs`).

It is imported before pytest, which is not to warn that it cannot rewrite its asserts:
PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import _local

TYPE_CHECKING = False  # Without importing typing.
if TYPE_CHECKING:
    import signal
    from asyncio import Task
    from mmap import mmap
    from typing import Any, NoReturn

    from erlang_loop._native import runs_command

    #: File, line, module, and the module's registry of warnings.
    Place = tuple[str, int, str, dict[Any, Any]]
else:
    import _signal as signal  # The module `signal` takes longer to import.

    from py_event_loop import runs_command

WARNING = (
    "os.fork() copies the Erlang VM with only the calling thread: Erlang, and every lock "
    "another thread holds, stand still in the child. Use subprocess, or multiprocessing "
    "with its default here, 'spawn'."
)

#: Asked here: native code locks what it looks at, and a child may find that locked.
_RUNS_COMMAND = runs_command()
#: Whether this process is such a child.
is_child = False
#: Whether the warning was shown: one byte that all children share with the node.
_shown: mmap | None = None
#: Whether the child has called a function of the exec family.
_has_called_exec = False


class _Forking(_local):
    """What a thread knows before it forks, for the child."""

    place: Place
    #: The asyncio task that forks.
    task: Task[Any] | None = None


_forking = _Forking()


def before() -> None:
    """Called by `os.fork()` and its like, but not before subprocesses without `preexec_fn`."""
    global _shown
    if _shown is None:
        import mmap

        _shown = mmap.mmap(-1, 1)
    frame = sys._getframe(1)
    names = frame.f_globals
    module = str(names.get("__name__", "<string>"))
    registry = names.setdefault("__warningregistry__", {})
    _forking.place = (frame.f_code.co_filename, frame.f_lineno, module, registry)
    _forking.task = _current_task()


def _current_task() -> Task[Any] | None:
    asyncio = sys.modules.get("asyncio.tasks")
    running = sys.modules.get("asyncio.events")
    if asyncio is None or running is None:
        return None
    loop = running._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


def in_child() -> None:
    """Called in the child, before `os.fork()` returns there."""
    global is_child
    is_child = True
    if not _RUNS_COMMAND:
        _take_signals()
    _have_warned()


def _take_signals() -> None:
    """Signals do what they do in a python: the handlers of the VM were removed already."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is None and number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The VM ignores the one, python the other.
    signal.signal(signal.SIGFPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


# A child that runs another program at once is as safe as a subprocess. What shows that it goes on
# in Python: it makes an event loop, begins as a process of multiprocessing, or ends.


def _have_warned() -> None:
    sys.addaudithook(_note_exec)
    multiprocessing: Any = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:
        multiprocessing.register_after_fork(warn, lambda warn: warn())
    atexit.register(warn)
    os._exit = _exit


def _note_exec(event: str, _arguments: object) -> None:
    global _has_called_exec
    if event == "os.exec":
        _has_called_exec = True


_exit_now = os._exit


def _exit(status: int) -> NoReturn:
    """`os._exit` of a child."""
    try:
        warn()
    except Warning as error:
        sys.excepthook(type(error), error, error.__traceback__)
    _exit_now(status)


def warn() -> None:
    """Say once, in one of all children, that it goes on running Python, and where it was made."""
    if _shown is None or _shown[0] or _has_called_exec:
        return
    import warnings

    # Two children may be here at once: the time between the look and this is short.
    _shown[0] = 1
    file, line, module, registry = _forking.place
    try:
        warnings.warn_explicit(WARNING, RuntimeWarning, file, line, module, registry)
    except RuntimeWarning:
        # A filter made it an exception, which may be caught.
        _shown[0] = 0
        raise


def end_callback(error: BaseException | None) -> int:
    """As `end`, for a callback of a loop of the node. A task keeps what its coroutine raised."""
    task = _forking.task
    if error is None and task is not None:
        if not task.done():
            message = "a forked child cannot await on a loop of the Erlang node: use asyncio.run()"
            error = RuntimeError(message)
        elif task.cancelled():
            from asyncio import CancelledError

            error = CancelledError()
        else:
            error = task.exception()
    return end(error)


def end(error: BaseException | None) -> int:
    """Do what python does at the end of its program, and return its exit status."""
    status = _status(error)
    _join_threads()
    atexit._run_exitfuncs()
    if not _flush():
        status = 120
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return status


def _status(error: BaseException | None) -> int:
    """Show what the code raised, if python shows it."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _join_threads() -> None:
    threading: Any = sys.modules.get("threading")
    if threading is None:
        return
    main = threading.main_thread()
    if getattr(main, "_tstate_lock", main) is None:
        # Before Python 3.12 a thread that `threading` did not start gets none when it forks.
        main._set_tstate_lock()
    threading._shutdown()


def _flush() -> bool:
    flushed = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError) as error:
            flushed = stream is sys.stderr
            if not flushed:
                sys.excepthook(type(error), error, error.__traceback__)
    return flushed
