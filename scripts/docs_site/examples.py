"""The examples: each with what it is for, its source, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from docs_site.pages import ROOT

EXAMPLES = ROOT / "examples"
LANGUAGES = {".py": "python", ".escript": "erlang"}
#: Figures of one machine are in bench/README.md; the other one serves until it is ended.
NOT_RUN = {"benchmark_event_loop.py", "moved_in.py"}


def write(to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    parts = ["# Examples\n"]
    # A module that an escript of the same name, or of a similar one, runs stands below that.
    programs = [path for path in sorted(EXAMPLES.iterdir()) if path.suffix in LANGUAGES]
    for path in programs:
        text = path.read_text(encoding="utf-8")
        parts.append(f"## {path.name}\n")
        parts.append(f"```{LANGUAGES[path.suffix]}\n{text}```\n")
        if (path.suffix == ".escript" or "asyncio.run(" in text) and path.name not in NOT_RUN:
            printed = run(path)
            if printed:
                parts.append(f"It prints:\n\n```text\n{printed}```\n")
    (to / "index.md").write_text("\n".join(parts), encoding="utf-8")


def run(path: Path) -> str:
    command = ["escript"] if path.suffix == ".escript" else [str(ROOT / "bin" / "erlang-loop")]
    env = {**os.environ, "ERL_LIBS": str(ROOT / "_build/default/lib")}
    try:
        ended = subprocess.run(
            [*command, str(path)],
            env=env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{path.name} does not run:\n{error.stderr}") from None
    except (subprocess.TimeoutExpired, OSError) as error:
        raise SystemExit(f"{path.name} does not run: {error}") from None
    # Pids, ports and times of this run are of no use to a reader.
    return re.sub(r"<0\.\d+\.0>", "<0.123.0>", ended.stdout)
