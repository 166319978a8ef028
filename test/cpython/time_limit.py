"""Ends a test that hangs, so that the others still run.

A thread watches the clock. It prints all stacks, raises in the main thread and wakes the loops;
if the test does not end even then, it ends the whole program.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
import threading
import time
import unittest
from typing import TYPE_CHECKING

import substitution

if TYPE_CHECKING:
    from results import Totals


class TookTooLong(SystemExit):
    """SystemExit, because neither loops nor tasks swallow it; unittest reports it as an error."""


class TimeLimit:
    def __init__(self, seconds: float, totals: Totals) -> None:
        self._seconds = seconds
        self._totals = totals
        self._main = threading.get_ident()
        self._changed = threading.Condition()
        self._test: unittest.TestCase | None = None
        self._deadline = 0.0
        self._warned = 0
        self._stopped = False
        #: Whether a test was interrupted: it may have left threads and children that never end.
        self.was_needed = False
        threading.Thread(target=self._watch, name="time-limit", daemon=True).start()

    def begin(self, test: unittest.TestCase) -> None:
        with self._changed:
            self._test = test
            self._warned = 0
            self._deadline = time.monotonic() + self._seconds

    def end(self) -> None:
        with self._changed:
            self._test = None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._stopped:
                self._changed.wait(1.0)
                if self._test is not None and time.monotonic() > self._deadline:
                    self._interrupt(self._test)
                    self._deadline = time.monotonic() + 10.0

    def _interrupt(self, test: unittest.TestCase) -> None:
        print(f"--- {test.id()} hangs", file=sys.__stdout__, flush=True)
        faulthandler.dump_traceback(file=sys.__stdout__)
        self._warned += 1
        self.was_needed = True
        if self._warned > 3:
            print("it cannot be interrupted: ending here", file=sys.__stdout__)
            print(self._totals.text(), file=sys.__stdout__, flush=True)
            os._exit(1)
        thread = ctypes.c_ulong(self._main)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TookTooLong))
        for loop in substitution.open_loops():
            # A Python callback: the exception is raised where Python code runs.
            loop.call_soon_threadsafe(lambda: None)
