"""`scripts/try-mix`: README's Elixir project, in an empty folder, without a compiler of Rust."""

from __future__ import annotations

import re
from pathlib import Path

from doors import places, readme
from doors.shell import Shell


def main() -> None:
    new, dependency, session = readme.blocks("Elixir")
    with places.empty_folder() as folder:
        project = places.project(folder)
        env = places.environment(
            folder,
            places.COMPILERS,
            PYTHON=places.python_of_the_build(),
            ERLANG_LOOP_ARTIFACTS=str(project / "dist"),
        )
        watch = places.Stopwatch()
        places.do(["sh", "-ec", new], folder, env)
        depend(folder / "hello", readme.at(dependency, project))
        shell = Shell(["iex", "-S", "mix"], "iex(1)>", folder / "hello", env)
        output = shell.run(session + "{:ran, 6 * 7}\n", "{:ran, 42}")
        places.expect("** (" not in output and "{:ok, 4.0}" in output, "README fails", output)
        watch.report("mix, from an empty folder to the end of README's session")


def depend(created: Path, block: str) -> None:
    """Puts README's `deps` in the place of those that `mix new` wrote."""
    function = block.partition("\n")[2].strip()
    generated = (created / "mix.exs").read_text()
    # Indented, up to its own `end`.
    replaced, count = re.subn(
        r"defp deps do\n.*?\n  end", lambda _: function, generated, flags=re.DOTALL
    )
    places.expect(count == 1, "mix new has written no deps", generated)
    (created / "mix.exs").write_text(replaced)


if __name__ == "__main__":
    main()
