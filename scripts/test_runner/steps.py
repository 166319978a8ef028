"""The steps of `make test`, in order: the quick checkers of a language before its slow tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from test_runner import counts
from test_runner.counts import Counts

LOGS = Path("_build/test-logs")
PYTEST_REPORT = LOGS / "pytest.xml"
CPYTHON_REPORT = LOGS / "cpython.json"
PYTHON_BIN = Path(".venv/bin")
# Built first: no step before it may have run.
ERLANG_LOOP = ("sh", "-c", 'rebar3 compile && exec bin/erlang-loop "$@"', "sh")
PYTEST = (*ERLANG_LOOP, "-m", "pytest", f"--junitxml={PYTEST_REPORT}")
CPYTHON = (*ERLANG_LOOP, "test/cpython/run.py", "--report", str(CPYTHON_REPORT))


def never_left_out() -> str:
    return ""


@dataclass(frozen=True)
class Step:
    name: str
    command: Sequence[str]
    # Reads the counts from the output.
    count: Callable[[str], Counts] = counts.one
    env: Mapping[str, str] = field(default_factory=dict)
    # Why there is nothing to run here; empty if there is.
    left_out: Callable[[], str] = never_left_out
    # The command for only what failed the last time, if there is one.
    again: Sequence[str] = ()

    @property
    def is_checker(self) -> bool:
        return self.count is counts.one


def pytest_left_out() -> str:
    for path in ("bin/erlang-loop", "test/python"):
        if not Path(path).exists():
            return f"there is no {path}"
    PYTEST_REPORT.unlink(missing_ok=True)
    return ""


def cpython_left_out() -> str:
    if not Path("bin/erlang-loop").exists():
        return "there is no bin/erlang-loop"
    # Debian has it in a package of its own, libpython3-testsuite.
    python = os.environ.get("PYTHON", "python3")
    command = (python, "-c", "import test.test_asyncio")
    found = subprocess.run(command, check=False, capture_output=True)
    return f"{python} comes without test.test_asyncio" if found.returncode else ""


def elixir_left_out() -> str:
    return "" if shutil.which("mix") else "mix is not installed"


def shellcheck_left_out() -> str:
    return "" if shutil.which("shellcheck") else "shellcheck is not installed"


def cargo_fuzz_left_out() -> str:
    # The same programs run in the step cargo, as tests/fuzz_core.rs, without coverage as a guide.
    command = ("cargo", "+nightly", "fuzz", "--version")
    found = subprocess.run(command, check=False, capture_output=True)
    return "cargo +nightly fuzz is not installed" if found.returncode else ""


def shell_scripts() -> list[str]:
    """The files that name a shell in their first line, and the one that others source."""
    found = ["native/python_env"]
    for folder in (".ci", "bench", "bin", "native", "scripts"):
        for path in sorted(Path(folder).glob("*")):
            if path.is_file() and re.match(rb"#!.*\b(ba)?sh\b", path.read_bytes()):
                found.append(str(path))
    return found


STEPS = (
    Step("shellcheck", ("shellcheck", "-x", *shell_scripts()), left_out=shellcheck_left_out),
    Step("rustfmt", ("cargo", "fmt", "--all", "--check")),
    Step(
        "clippy",
        ("cargo", "clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"),
    ),
    Step("imports", ("scripts/import_order",)),
    Step(
        # Not py_nif: its test binary would need the enif_* functions of the VM to link.
        "cargo",
        (
            *("cargo", "test", "--locked", "--no-fail-fast"),
            *("--package", "event_loop", "--package", "bench_load"),
        ),
        counts.cargo,
    ),
    Step(
        # Optimised, because loom runs each test thousands of times; without the release
        # profile's whole-program optimisation, which would only lengthen the build.
        "loom",
        (
            *("cargo", "test", "--locked", "--no-fail-fast", "--package", "event_loop"),
            *("--release", "--test", "loom_*"),
        ),
        counts.cargo,
        {
            "RUSTFLAGS": "--cfg loom",
            "CARGO_TARGET_DIR": "target/loom",
            "CARGO_PROFILE_RELEASE_LTO": "off",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        },
    ),
    Step("cargo-fuzz", ("scripts/cargo_fuzz", "5"), left_out=cargo_fuzz_left_out),
    Step("compile", ("rebar3", "as", "strict", "compile")),
    Step("xref", ("rebar3", "xref")),
    Step("dialyzer", ("rebar3", "dialyzer")),
    Step("docs", ("scripts/docs",)),
    Step("ruff", (f"{PYTHON_BIN}/ruff", "check", "--no-cache", ".")),
    Step("ruff-format", (f"{PYTHON_BIN}/ruff", "format", "--no-cache", "--check", ".")),
    Step("mypy", (f"{PYTHON_BIN}/mypy", "--strict")),
    Step("ct", ("rebar3", "ct"), counts.common_test, again=("scripts/ct_again",)),
    Step(
        "elixir",
        ("scripts/elixir_tests",),
        counts.exunit,
        {"MIX_ENV": "test"},
        left_out=elixir_left_out,
        again=("mix", "test", "--failed"),
    ),
    Step(
        "pytest",
        PYTEST,
        lambda _output: counts.junit(PYTEST_REPORT),
        left_out=pytest_left_out,
        again=(*PYTEST, "--last-failed"),
    ),
    Step(
        "cpython",
        CPYTHON,
        counts.cpython,
        left_out=cpython_left_out,
        again=(*CPYTHON, "--again"),
    ),
)
