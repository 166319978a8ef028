"""`scripts/try-rebar3`: README's Erlang project, in an empty folder, without a compiler of Rust."""

from __future__ import annotations

from doors import places, readme
from doors.shell import Shell


def main() -> None:
    link, config, session = readme.blocks("Erlang")
    with places.empty_folder() as folder:
        project = places.project(folder)
        env = places.environment(
            folder,
            places.COMPILERS,
            PYTHON=places.python_of_the_build(),
            ERLANG_LOOP_ARTIFACTS=str(project / "dist"),
        )
        work = folder / "work"
        work.mkdir()
        watch = places.Stopwatch()
        places.do(["sh", "-ec", readme.at(link, project)], work, env)
        (work / "rebar.config").write_text(config)
        # An exception leaves the shell running: the text of the last value shows that all ran.
        # rebar3 prompts before it has started the applications, and drops what was typed
        # until then.
        shell = Shell(["rebar3", "shell"], "===> Booted erlang_loop", work, env)
        output = shell.run(session + "{ran, 6 * 7}.\n", "{ran,42}")
        places.expect("exception" not in output and "{ok,4.0}" in output, "README fails", output)
        watch.report("rebar3, from an empty folder to the end of README's session")


if __name__ == "__main__":
    main()
