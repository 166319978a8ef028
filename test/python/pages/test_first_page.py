"""Do README's lines for Erlang, Elixir and Python run in an empty folder?

Word for word, apart from `/path/to/erlang_loop`. Cargo's files are shared, so nothing is compiled a
second time.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from threading import Timer

import pytest
from command import ERLANG_LOOP, ROOT, run

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A limit for what hangs, not for what is slow: nothing is compiled, but the machine may be busy.
PATIENCE = 600.0

pytestmark = pytest.mark.ours


def blocks(section: str) -> list[tuple[str, str]]:
    """The language and the text of each block below a heading of README."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = BLOCK.findall(text)
    return [
        (language, block.replace("/path/to/erlang_loop", str(ROOT))) for language, block in found
    ]


def environment(**changes: str) -> dict[str, str]:
    """Ours, for a build with the interpreter that this project was built with."""
    build_info = (ROOT / "priv" / "build_info").read_text(encoding="utf-8")
    python = re.search(r'{python,\s*"([^"]+)"}', build_info)
    assert python, build_info
    shared = {"PYTHON": python[1], "CARGO_TARGET_DIR": str(ROOT / "target"), "TERM": "dumb"}
    return {**shared, **os.environ, "PYTHON": python[1], "TERM": "dumb", **changes}


def do(command: list[str], folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Shell:
    """A shell in which lines are typed once its output says that it is ready for them."""

    def __init__(self, command: list[str], ready: str, folder: Path, env: dict[str, str]) -> None:
        self.output = ""
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        self.timer = Timer(PATIENCE, self.process.kill)
        self.timer.start()
        self.ready = ready

    def run(self, lines: str, last: str) -> str:
        """The output of these lines, up to the text `last`."""
        try:
            self.read_to(self.ready)
            assert self.process.stdin is not None
            self.process.stdin.write(lines.encode())
            self.read_to(last)
        finally:
            self.timer.cancel()
            self.process.kill()
            self.process.communicate()
        return self.output

    def read_to(self, text: str) -> None:
        assert self.process.stdout is not None
        while text not in self.output:
            more = self.process.stdout.read(4096)
            assert more, f"ended without {text}: {self.output}"
            self.output += more.decode()


def test_figures_are_those_of_the_page():
    """README quotes the means against uvloop: of real programs, and of all cases."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    means = page.split("\n## Real programs\n")[1].split("| geometric mean |")[1].splitlines()[0]
    real = re.findall(r"\*\*([\d.]+)\*\*", means)[1]
    over_all = re.search(r"^\| uvloop \| ([\d.]+) \| [\d.–]+ \| (\d+) \|", page, re.MULTILINE)  # noqa: RUF001
    assert over_all
    quoted = f"{real} times as fast as uvloop, over all {over_all[2]} cases {over_all[1]} times"
    assert quoted in " ".join(readme.split())


def test_erlang(tmp_path):
    (_, link), (_, config), (_, session) = blocks("Erlang")
    env = environment()
    do(["sh", "-ec", link], tmp_path, env)
    (tmp_path / "rebar.config").write_text(config)
    # An exception leaves the shell running: only the text of the last value shows that all ran.
    # rebar3 prompts before it has started the applications, and drops what was typed until then.
    shell = Shell(["rebar3", "shell"], "===> Booted erlang_loop", tmp_path, env)
    output = shell.run(session + "{ran, 6 * 7}.\n", "{ran,42}")
    assert "exception" not in output, output
    assert "{ok,4.0}" in output, output


def test_elixir(tmp_path):
    (_, new), (_, deps), (_, session) = blocks("Elixir")
    env = environment(MIX_HOME=str(tmp_path / "mix"), HEX_HOME=str(tmp_path / "hex"))
    do(["sh", "-ec", new], tmp_path, env)
    project = tmp_path / "hello"
    generated = (project / "mix.exs").read_text()
    function = deps.partition("\n")[2].strip()
    # What `mix new` writes, indented, up to its own `end`.
    replaced, count = re.subn(
        r"defp deps do\n.*?\n  end", lambda _: function, generated, flags=re.DOTALL
    )
    assert count == 1, generated
    (project / "mix.exs").write_text(replaced)
    shell = Shell(["iex", "-S", "mix"], "iex(1)>", project, env)
    output = shell.run(session + "{:ran, 6 * 7}\n", "{:ran, 42}")
    assert "** (" not in output, output
    assert "{:ok, 4.0}" in output, output


def test_python(tmp_path):
    ((_, program),) = blocks("Python")
    (tmp_path / "program.py").write_text(program)
    ended = run(ERLANG_LOOP, "program.py", cwd=tmp_path)
    assert (ended.code, ended.out, ended.err) == (0, "b'hello\\n'\n6\n", "")
