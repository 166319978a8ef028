"""Functions that suites call in a node's Python. Arguments are strings, results text or numbers."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

_remembered = ""


def remember(text: str) -> None:
    """Keeps a value for recall()."""
    global _remembered
    _remembered = text


def recall() -> str:
    """The value of the last remember()."""
    return _remembered


def import_all(*names: str) -> str:
    """Imports modules and returns the file of the last one."""
    modules = [importlib.import_module(name) for name in names]
    return str(getattr(modules[-1], "__file__", ""))


def add_with_numpy() -> int:
    """numpy really computes, with its compiled parts."""
    import numpy

    return int((numpy.arange(10) @ numpy.ones(10, dtype=int)).item())


def hash_with_ssl() -> str:
    """OpenSSL is there."""
    import ssl

    return ssl.OPENSSL_VERSION.split()[0]


def describe() -> str:
    """What this interpreter is, as JSON."""
    return json.dumps(
        {
            "version": ".".join(map(str, sys.version_info[:2])),
            "executable": sys.executable,
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "path": sys.path,
            "main_thread": threading.current_thread() is threading.main_thread(),
            "argv": sys.argv,
        }
    )


def exit_code_of(code: str) -> int:
    """Runs code in an interpreter of its own, started from sys.executable."""
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def output_of(code: str) -> str:
    """What it prints."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout


def signal_handlers() -> str:
    """The signals that have a handler written in Python."""
    handled = [
        s.name
        for s in signal.valid_signals()
        if isinstance(s, signal.Signals) and callable(signal.getsignal(s))
    ]
    return ",".join(handled)


def wait_for_signal(name: str) -> str:
    """Runs a loop until the signal arrives at its handler."""
    import asyncio

    import erlang_loop

    async def wait() -> str:
        arrived = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.Signals[name], arrived.set)
        await arrived.wait()
        return name

    return erlang_loop.run(wait())


def is_libpython_global() -> int:
    """Whether a library loaded now would find Python's symbols."""
    import ctypes

    return int(hasattr(ctypes.CDLL(None), "Py_IsInitialized"))


def start_threads(count: str) -> int:
    """Threads that run and threads that sleep, and that are never joined."""

    def busy() -> None:
        while True:
            sum(range(1000))

    def idle() -> None:
        time.sleep(3600)

    for number in range(int(count)):
        threading.Thread(target=busy if number % 2 else idle, daemon=number % 4 < 2).start()
    return threading.active_count()


def fail(text: str) -> None:
    """Raises."""
    raise ValueError(text)


def sleep(seconds: str) -> None:
    """Keeps Python's main thread busy."""
    time.sleep(float(seconds))


def erlang_sleep(ms: str, count: str) -> int:
    """How long it took, in milliseconds, until that many threads had slept; 0 if one slept less."""
    import py_event_loop

    shortest: list[float] = []

    def one() -> None:
        started = time.monotonic()
        py_event_loop._erlang_sleep(float(ms))
        shortest.append((time.monotonic() - started) * 1000)

    threads = [threading.Thread(target=one) for _ in range(int(count))]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if min(shortest) < float(ms):
        return 0
    return int((time.monotonic() - started) * 1000)


def pid() -> int:
    """Of the operating system."""
    return os.getpid()
