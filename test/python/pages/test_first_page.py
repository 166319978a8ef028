"""Do README's lines for Erlang, Elixir and Python run in an empty folder?

Word for word, apart from `/path/to/erlang_loop`: by scripts/try-rebar3 and scripts/try-mix, which
read them there. The wheel is in test_wheel.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from command import ERLANG_LOOP, ROOT, run

#: A limit for what hangs, not for what is slow: nothing is compiled, but the machine may be busy.
PATIENCE = 600.0

pytestmark = pytest.mark.ours


def try_out(script: str, *arguments: str) -> str:
    """Runs one of README's ways in; the script takes the commands from README."""
    command = [ROOT / "scripts" / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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


def test_erlang():
    assert "rebar3, from an empty folder to the end of README's session: " in try_out("try-rebar3")


@pytest.mark.skipif(not shutil.which("mix"), reason="mix is not installed")
def test_elixir():
    assert "mix, from an empty folder to the end of README's session: " in try_out("try-mix")


def test_release():
    """With Python code and packages inside, run from another folder. Without arguments the script
    tries mix, too.
    """
    assert "to a result in another folder: " in try_out("try-release", "rebar3")


def test_python(tmp_path):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    ended = run(ERLANG_LOOP, "program.py", cwd=tmp_path)
    assert (ended.code, ended.out, ended.err) == (0, "b'hello\\n'\n6\n", "")
