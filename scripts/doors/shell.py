"""An interactive shell in which lines are typed once its output says that it is ready for them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Timer

#: A limit for what hangs, not for what is slow.
PATIENCE = 600.0


class Shell:
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
            if not more:
                raise SystemExit(f"it ended without {text}:\n{self.output}")
            self.output += more.decode(errors="replace")
