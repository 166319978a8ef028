"""Does `scripts/release` write one version into all places, and cut the changelog?"""

from __future__ import annotations

import datetime
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from command import ROOT

FILES = (
    *("CHANGELOG.md", "Cargo.lock", "Cargo.toml", "docs/install.md", "erl_src/erlang_loop.app.src"),
    *("native/event_loop/fuzz/Cargo.lock", "native/event_loop/fuzz/Cargo.toml", "pyproject.toml"),
    *("python/erlang_loop/__init__.py", "scripts/release"),
)


def release(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [folder / "scripts" / "release", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (info,) = (ROOT / "python").glob("*.dist-info")
    shutil.copytree(info, tmp_path / "python" / info.name)
    subprocess.run(["git", "init", "--quiet", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n- New.\n")
    return tmp_path


def test_versions_agree():
    checked = release(ROOT, "--check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_release(copy):
    assert release(copy, "99.1.2").returncode == 0
    assert release(copy, "--check").stdout == "99.1.2\n"
    assert tomllib.loads((copy / "pyproject.toml").read_text())["project"]["version"] == "99.1.2"
    today = datetime.date.today().isoformat()
    expected = f"# Changelog\n\n## [Unreleased]\n\n## [99.1.2] - {today}\n\n- New.\n"
    assert (copy / "CHANGELOG.md").read_text() == expected
    again = release(copy, "99.2.0")
    assert again.stderr == "scripts/release: CHANGELOG.md has nothing that is unreleased\n"
    assert release(copy, "--check").stdout == "99.1.2\n"


def test_a_place_that_differs_is_named(copy):
    page = copy / "python" / "erlang_loop" / "__init__.py"
    page.write_text('__version__ = "0.0.1"\n')
    checked = release(copy, "--check")
    assert checked.returncode == 1
    assert checked.stderr.startswith("python/erlang_loop/__init__.py has 0.0.1, and erl_src/")


def test_misuse_is_one_sentence(copy):
    for arguments in ((), ("1",), ("0.0.1",)):
        ended = release(copy, *arguments)
        assert ended.returncode == 1
        assert ended.stderr.startswith("scripts/release: ")
        assert ended.stderr.count("\n") == 1
