"""The end of Python in a node, which does not finalize it: threads go on until the process ends.

`py_interpreter` calls this on Python's main thread while the node stops; native code does when the
process ends, if the application was stopped before.
"""

from __future__ import annotations

import atexit
import sys


def run() -> None:
    """Does what CPython does before it finalizes, in the same order.

    Joins threads that are not daemons, after the exit functions of `threading` (those of
    `concurrent.futures` are among them), calls what is registered with `atexit`, and flushes the
    output. An exception of one does not keep the others from running.
    """
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
    finally:
        try:
            atexit._run_exitfuncs()
        finally:
            _flush_output()


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None and not stream.closed:
            stream.flush()
