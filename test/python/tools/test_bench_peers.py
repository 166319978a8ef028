"""Do the measurements of peers run? With tiny sizes; the figures do not matter here."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from command import ERLANG_LOOP, PATIENCE, ROOT

pytestmark = pytest.mark.ours
PEERS = ROOT / "bench" / "peers"


def printed(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True
    ).stdout


def test_executors():
    table = printed(str(ERLANG_LOOP), str(PEERS / "executors.py"), "0.1", "1")
    for name in ("PeerPoolExecutor", "ProcessPoolExecutor"):
        assert re.search(rf"^\| {name} \|( [\d,]+ \|){{4}}$", table, re.MULTILINE), table


def test_figures():
    escript = shutil.which("escript") or "escript"
    text = printed(escript, str(PEERS / "figures.escript"), "spares")
    assert re.fullmatch(r"a spare has replied, after the crash: \d+ to \d+ us\n", text)
