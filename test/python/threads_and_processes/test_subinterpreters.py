"""Is it said plainly that our packages cannot be imported in a sub-interpreter?"""

from __future__ import annotations

import pytest
from command import ERLANG_LOOP, run

pytestmark = pytest.mark.ours

PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

inside = f'''
import sys
sys.path[:] = {sys.path!r}
try:
    import PACKAGE
except ImportError as error:
    print(error)
import asyncio
print(asyncio.run(asyncio.sleep(0, "asyncio")), flush=True)
'''
other = interpreters.create()
interpreters.run_string(other, inside)
interpreters.destroy(other)
import PACKAGE
print("here")
"""


@pytest.mark.parametrize("package", ["erlang_loop", "erlang_asyncio", "erlang"])
def test_importing_is_one_clear_error(package: str) -> None:
    ended = run(ERLANG_LOOP, "-c", PROGRAM.replace("PACKAGE", package))
    assert (ended.code, ended.err) == (0, "")
    error, own_loop, here = ended.out.splitlines()
    assert error.startswith(f"{package} does not support sub-interpreters: ")
    assert (own_loop, here) == ("asyncio", "here")
