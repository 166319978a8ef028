"""Does a user's pytest suite run on ErlangEventLoop in a node, as it is?"""

from __future__ import annotations

from pathlib import Path

import erlang_loop
import pytest
from command import ERLANG_LOOP, PYTHON, ROOT, Ended, environment, run

OURS = "type(asyncio.get_running_loop()).__name__ == 'ErlangEventLoop'"

SUITE = f"""
import asyncio, unittest
import pytest

@pytest.fixture
async def fixture():
    assert {OURS}
    yield asyncio.get_running_loop()

@pytest.mark.asyncio
async def test_asyncio():
    await asyncio.sleep(0.001)
    assert {OURS}

@pytest.mark.asyncio(loop_scope="module")
async def test_asyncio_with_a_loop_for_the_module():
    assert {OURS}

@pytest.mark.anyio
async def test_anyio():
    await asyncio.sleep(0.001)
    assert {OURS}

def test_plain():
    async def main():
        assert {OURS}
    asyncio.run(main())

class Case(unittest.IsolatedAsyncioTestCase):
    async def test(self):
        assert {OURS}
"""
STRICT = "[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"


def suite(folder: Path, code: str, *options: str, command: str = ERLANG_LOOP) -> Ended:
    (folder / "test_suite.py").write_text(code)
    (folder / "pytest.ini").write_text(STRICT)
    return run(command, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *options, cwd=folder)


def test_suite_runs_on_our_loop(tmp_path: Path) -> None:
    ended = suite(tmp_path, SUITE)
    assert ended.code == 0, ended.out
    assert "5 passed" in ended.out
    assert f"erlang_loop {erlang_loop.__version__}: tests run on ErlangEventLoop" in ended.out
    # The names of tests are what they are elsewhere: people select by them.
    assert "test_suite.py::test_asyncio\n" in ended.out


def test_suite_in_auto_mode(tmp_path: Path) -> None:
    code = f"import asyncio\nasync def test_auto():\n    assert {OURS}\n"
    assert "1 passed" in suite(tmp_path, code, "--asyncio-mode=auto").out


def test_async_fixtures_run_on_our_loop(tmp_path: Path) -> None:
    code = SUITE.replace("@pytest.fixture", "import pytest_asyncio\n@pytest_asyncio.fixture")
    code += f"""
@pytest.mark.asyncio
async def test_fixture(fixture):
    assert fixture is asyncio.get_running_loop() and {OURS}
"""
    assert "6 passed" in suite(tmp_path, code).out


def test_suite_that_chooses_its_loops_gets_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import asyncio\n"
        "def pytest_asyncio_loop_factories(config, item):\n"
        "    return {'theirs': asyncio.SelectorEventLoop}\n"
    )
    assert "1 passed" in suite(tmp_path, CHOSEN).out


def test_suite_that_chooses_its_policy_gets_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import asyncio, pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def event_loop_policy():\n"
        "    return asyncio.DefaultEventLoopPolicy()\n"
    )
    # Python 3.14 warns of policies.
    ignored = ("pytest.PytestDeprecationWarning", "DeprecationWarning")
    ended = suite(
        tmp_path, CHOSEN, *(word for name in ignored for word in ("-W", f"ignore::{name}"))
    )
    assert "1 passed" in ended.out, ended.out


CHOSEN = f"""
import asyncio, pytest
@pytest.mark.asyncio
async def test_chosen():
    assert not {OURS}
"""


def test_anyio_backend_that_was_chosen_is_kept(tmp_path: Path) -> None:
    code = f"""
import asyncio, pytest
@pytest.fixture
def anyio_backend():
    return "asyncio", {{"loop_factory": asyncio.SelectorEventLoop}}
@pytest.mark.anyio
async def test_chosen(anyio_backend):
    assert not {OURS}
"""
    assert "1 passed" in suite(tmp_path, code).out


def test_plugin_can_be_left_out(tmp_path: Path) -> None:
    ended = suite(tmp_path, "def test_nothing(): pass", "-p", "no:erlang_loop")
    assert ended.code == 0
    assert "ErlangEventLoop" not in ended.out


def test_failures_are_reported(tmp_path: Path) -> None:
    ended = suite(tmp_path, "def test_wrong(): assert 1 == 2")
    assert ended.code == 1
    assert "assert 1 == 2" in ended.out


def test_outside_a_node_the_plugin_does_nothing(tmp_path: Path) -> None:
    """erlang_loop is installed, and pytest is run by plain python."""
    (tmp_path / "pytest.ini").write_text(STRICT)
    (tmp_path / "test_suite.py").write_text("def test_nothing(): pass")
    env = environment(PYTHONPATH=str(ROOT / "python"))
    ended = run(PYTHON, "-m", "pytest", "-p", "no:cacheprovider", cwd=tmp_path, env=env)
    assert (ended.code, "erlang_loop-" in ended.out) == (0, True), ended.out + ended.err
    assert "ErlangEventLoop" not in ended.out


def test_versions_and_entry_points_agree() -> None:
    """pyproject.toml, the package, and the metadata that a node reads instead."""
    tomllib = pytest.importorskip("tomllib", reason="this Python reads no TOML")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == erlang_loop.__version__
    (folder,) = (ROOT / "python").glob("*.dist-info")
    assert folder.name == f"erlang_loop-{project['version']}.dist-info"
    assert f"Version: {project['version']}\n" in (folder / "METADATA").read_text()
    listed = (folder / "entry_points.txt").read_text()
    assert listed == "[pytest11]\n" + "".join(
        f"{name} = {place}\n" for name, place in project["entry-points"]["pytest11"].items()
    )
