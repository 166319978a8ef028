"""`scripts/try-release [rebar3|mix]`: a release with Python code and packages in it.

From an empty folder, without a compiler of Rust: a project, its Python code and its environment in
`priv`, `rebar3 release` and `mix release`. Each release is moved to another folder, the project is
removed, and it runs there. The package is a wheel in a folder: nothing comes from a network.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from doors import mix, places, readme

CODE = """import greeting

def hello():
    return greeting.TEXT
"""
REQUIREMENTS = "--no-index\n--find-links .\ngreeting==1.0\n"
GITIGNORED = "priv/environments"

REBAR_CONFIG = """{deps, [erlang_loop]}.
{relx, [
    {release, {hello, "1.0.0"}, [hello, erlang_loop, sasl]},
    {mode, prod},
    {sys_config, "config/sys.config"}
]}.
"""
APP = """{application, hello, [
    {description, "hello"},
    {vsn, "1.0.0"},
    {applications, [kernel, stdlib, erlang_loop]}
]}.
"""
SYS_CONFIG = """[{erlang_loop, [
    {python_path, {priv, hello, "python"}},
    {requirements, {priv, hello, "requirements.txt"}},
    {environments, {priv, hello, "environments"}}
]}].
"""
CONFIG_EXS = """import Config

config :erlang_loop,
  python_path: {:priv, :hello, "python"},
  requirements: {:priv, :hello, "requirements.txt"},
  environments: {:priv, :hello, "environments"}
"""
#: docs/environments.md.
ENVIRONMENT = "erl -noshell -pa EBIN -s py_env main -extra requirements priv/requirements.txt "


def main() -> None:
    wanted = sys.argv[1:] or ["rebar3", "mix"]
    with places.empty_folder() as folder:
        project = places.project(folder)
        env = places.environment(
            folder,
            places.COMPILERS,
            PYTHON=places.python_of_the_build(),
            ERLANG_LOOP_ARTIFACTS=str(project / "dist"),
            MIX_ENV="prod",
        )
        for tool in wanted:
            {"rebar3": with_rebar3, "mix": with_mix}[tool](folder, project, env)


def with_rebar3(folder: Path, project: Path, env: dict[str, str]) -> None:
    work = folder / "rebar3"
    work.mkdir()
    watch = places.Stopwatch()
    places.do(["sh", "-ec", readme.at(readme.blocks("Erlang")[0], project)], work, env)
    (work / "rebar.config").write_text(REBAR_CONFIG)
    (work / "src").mkdir()
    (work / "src" / "hello.app.src").write_text(APP)
    (work / "config").mkdir()
    (work / "config" / "sys.config").write_text(SYS_CONFIG)
    python_in(work)
    places.do(["rebar3", "compile"], work, env)
    environment(work, "_build/default/checkouts/erlang_loop/ebin", env)
    places.do(["rebar3", "release"], work, env)
    released = elsewhere(work / "_build/default/rel/hello", folder / "opt rebar3", work)
    code = (
        '{ok, <<"hello">>} = py:call(hello, hello, []), io:put_chars(<<"it runs">>), init:stop().'
    )
    flags = {**env, "ERL_FLAGS": f"-eval '{code}'"}
    output = places.do([released / "bin/hello", "foreground"], folder, flags)
    places.expect("it runs" in output, "the release does not call Python", output)
    watch.report("rebar3 release, from an empty folder to a result in another folder")


def with_mix(folder: Path, project: Path, env: dict[str, str]) -> None:
    new, dependency, _session = readme.blocks("Elixir")
    watch = places.Stopwatch()
    places.do(["sh", "-ec", new], folder, env)
    work = folder / "hello"
    mix.depend(work, readme.at(dependency, project))
    (work / "config").mkdir()
    (work / "config" / "config.exs").write_text(CONFIG_EXS)
    python_in(work)
    places.do(["mix", "compile"], work, env)
    environment(work, "_build/prod/lib/erlang_loop/ebin", env)
    places.do(["mix", "release"], work, env)
    released = elsewhere(work / "_build/prod/rel/hello", folder / "opt mix", work)
    code = 'IO.puts("hello" = ErlangLoop.call!(:hello, :hello)); IO.puts("it runs")'
    start = "{:ok, _} = Application.ensure_all_started(:erlang_loop); "
    output = places.do([released / "bin/hello", "eval", start + code], folder, env)
    places.expect("it runs" in output, "the release does not call Python", output)
    watch.report("mix release, from an empty folder to a result in another folder")


def python_in(work: Path) -> None:
    """The project's Python code, and its one package."""
    (work / "priv" / "python").mkdir(parents=True)
    (work / "priv" / "python" / "hello.py").write_text(CODE)
    (work / "priv" / "requirements.txt").write_text(REQUIREMENTS)
    files = {
        "greeting.py": "TEXT = 'hello'\n",
        "greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        "greeting-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        "greeting-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(work / "priv" / "greeting-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def environment(work: Path, ebin: str, env: dict[str, str]) -> None:
    """The command of docs/environments.md."""
    command = ENVIRONMENT.replace("EBIN", ebin) + GITIGNORED
    places.do(["sh", "-ec", command], work, env)


def elsewhere(release: Path, to: Path, work: Path) -> Path:
    """The release, in another folder; the project is gone."""
    shutil.move(os.fspath(release), to)
    shutil.rmtree(work)
    return to


if __name__ == "__main__":
    main()
