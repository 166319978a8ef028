"""The command `erlang-loop` of the wheel, which brings the Erlang VM with it.

`main` finds what depends on this machine, the interpreter's libpython, and becomes the launcher
that runs the interpreter inside a node: `erlang_loop/bin/erlang-loop`. scripts/make_wheel puts it
here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import sysconfig

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "erlang_loop")


def main() -> None:
    environment = {**os.environ, "ERLANG_LOOP_PYTHON": sys.executable}
    environment["ERLANG_LOOP_LIBPYTHON"] = libpython_folder()
    # Python ignores these, and a program would inherit that.
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    launcher = os.path.join(ROOT, "bin", "erlang-loop")
    try:
        os.execve("/bin/sh", ["sh", launcher, *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"erlang-loop: {launcher} cannot be run: {error.strerror}")


def libpython_folder() -> str:
    """Where the shared library of this Python is; empty if the loader finds it by itself."""
    name = sysconfig.get_config_var("INSTSONAME") or "libpython"
    version = ".".join(map(str, sys.version_info[:2]))
    for folder in (sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib")):
        if folder and ".so" in name and os.path.exists(os.path.join(folder, name)):
            return folder
    try:
        if ".so" in name:
            ctypes.CDLL(name)
            return ""
    except OSError:
        pass
    sys.exit(
        f"erlang-loop: Python {version} ({sys.executable}) has no shared libpython: install "
        f"libpython{version} (Debian, Ubuntu), or use an interpreter built with --enable-shared."
    )
