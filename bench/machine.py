"""Where a run took place: processor, system, versions. For the page and the baseline."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from bench.contenders import ROOT, version
from bench.registry import OPTIONAL_LOOPS


def _output(*words: str) -> str:
    if shutil.which(words[0]) is None:
        return ""
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.strip()


def processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found.group(1) if found else platform.machine()


def compiler() -> str:
    return _output("rustc", "--version")


def otp() -> str:
    code = 'io:format("~s", [erlang:system_info(otp_release)]), halt().'
    return _output("erl", "-noshell", "-boot", "no_dot_erlang", "-eval", code)


def describe() -> list[tuple[str, str]]:
    """Rows of a table."""
    packages = (
        *("uvloop", "rloop", *OPTIONAL_LOOPS),
        "fastapi",
        "uvicorn",
        "httptools",
        "granian",
        "aiohttp",
        "websockets",
        "redis",
        "asyncpg",
    )
    installed = [f"{name} {version(name)}" for name in packages if version(name)]
    missing = [name for name in ("uvloop", "rloop") if not version(name)]
    missing += [f"{name} ({why})" for name, why in OPTIONAL_LOOPS.items() if not version(name)]
    rows = [
        ("processor", f"{processor()}, {os.cpu_count()} cores"),
        ("system", f"{platform.system()} {platform.release().split('-')[0]}, {_libc()}"),
        ("Python", f"{platform.python_version()}, {platform.python_compiler()}"),
        ("Erlang/OTP", otp()),
        ("Rust", compiler()),
        ("packages", ", ".join(installed)),
    ]
    if missing:
        rows.append(("loops that are not installed", ", ".join(missing)))
    return rows


def _libc() -> str:
    return " ".join(platform.libc_ver()).strip() or "libc"
