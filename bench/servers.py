"""Redis and PostgreSQL for a whole run, if they are installed: the tests' own servers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "test" / "python" / "libraries"


@contextlib.contextmanager
def running(wanted: bool = True) -> Iterator[dict[str, str]]:
    """Variables for the cases in cases/databases.py; a server that cannot start is left out."""
    if not wanted:
        yield {}
        return
    sys.path.insert(0, str(FOLDER))
    try:
        from servers import MissingError, postgres, redis
    finally:
        sys.path.remove(str(FOLDER))
    places = {}
    with contextlib.ExitStack() as stack:
        for variable, server in (("BENCH_REDIS", redis), ("BENCH_POSTGRES", postgres)):
            try:
                places[variable] = stack.enter_context(server())
            except (MissingError, OSError, RuntimeError) as problem:
                print(f"bench: {problem}", file=sys.stderr)
        os.environ.update(places)
        try:
            yield places
        finally:
            for variable in places:
                del os.environ[variable]
