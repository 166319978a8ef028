"""Sends uncaught exceptions to Erlang's `logger`, which Python would print to stderr.

Those of callbacks and tasks arrive through asyncio's own exception handler, which logs them.
"""

from __future__ import annotations

import sys
import threading
import time

from .native import _log, _unraisable_hook

ERROR = 40


def install() -> None:
    sys.unraisablehook = _unraisable_hook(_unraisable)
    threading.excepthook = _in_thread


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    error = unraisable.exc_value
    if error is None:
        error = unraisable.exc_type()
    message = unraisable.err_msg or "Exception ignored in"
    if unraisable.object is not None:
        message = f"{message}: {_shown(unraisable.object)}"
    if not _report("sys.unraisablehook", message, error, ""):
        sys.__unraisablehook__(unraisable)


def _in_thread(args: threading.ExceptHookArgs) -> None:
    if issubclass(args.exc_type, SystemExit):
        # Ends the thread: Python reports nothing either.
        return
    error = args.exc_value
    if error is None:
        error = args.exc_type()
    name = args.thread.name if args.thread is not None else str(threading.get_ident())
    if not _report("threading.excepthook", f"Exception in thread {name}", error, name):
        threading.__excepthook__(args)


def _report(logger: str, message: str, error: BaseException, thread: str) -> bool:
    """Log an error with the location where it was raised."""
    file, function, module, line = "", "", "", 0
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file, function, line = code.co_filename, code.co_name, traceback.tb_lineno
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    place = (logger, module, file, line, function, thread, None)
    return _log(ERROR, message, time.time(), place, None, error)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return "<object repr() failed>"
