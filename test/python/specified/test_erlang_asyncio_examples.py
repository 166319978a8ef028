"""The example programs that define `erlang_asyncio` run as they are written, here and as programs.

They are the files `spec_examples/asyncio_*.py`, to the letter; what an example leaves open (a
function it only names, a handler it only defines) is supplied around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import erlang_asyncio
import httpx
import pytest
from command import ERLANG_LOOP, running
from erlang_loop import ErlangEventLoop
from test_spec_examples import example, finished

pytestmark = pytest.mark.ours


@pytest.mark.parametrize("name", ["basic", "run", "gather", "wait_for", "create_task", "wait"])
def test_program(name: str) -> None:
    assert finished(example(f"asyncio_{name}.py")) == ""


def run(name: str, **names: object) -> dict[str, Any]:
    """Runs an example here; what it defines."""
    namespace = {"__name__": "example", **names}
    exec(compile(example(f"asyncio_{name}.py"), name, "exec"), namespace)
    return namespace


def test_what_the_handler_returns() -> None:
    assert run("basic")["result"] == "done"
    assert run("run")["result"] == 42


def test_sleep() -> None:
    erlang_asyncio.run(run("sleep")["example"]())


async def ask_forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("slow_operation", "error"),
    [(lambda: erlang_asyncio.sleep(0), None), (ask_forever, erlang_asyncio.TimeoutError)],
)
def test_timeout(
    slow_operation: Callable[[], Awaitable[None]], error: type[Exception] | None
) -> None:
    main = run("timeout", slow_operation=slow_operation)["main"]
    with pytest.raises(error) if error else contextlib.nullcontext():
        erlang_asyncio.run(main())


def test_loop_functions_without_a_running_loop() -> None:
    """The last one raises there, as its comment says; the one before has set the loop."""
    asyncio.set_event_loop(None)
    # The example gets it, and drops it without closing it.
    first = erlang_asyncio.get_event_loop()
    with pytest.raises(RuntimeError, match="no running event loop"):
        run("loops")
    second = erlang_asyncio.get_event_loop()
    asyncio.set_event_loop(None)
    assert first is not second
    for loop in (first, second):
        assert type(loop) is ErlangEventLoop
        loop.close()


def _loop_of_the_thread() -> asyncio.AbstractEventLoop:
    """The one that was set, although another runs."""
    running = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return asyncio.get_event_loop()
    finally:
        asyncio._set_running_loop(running)


async def test_loop_functions_in_a_running_loop(loop) -> None:
    try:
        assert run("loops")["loop"] is loop
    finally:
        made = _loop_of_the_thread()
        erlang_asyncio.set_event_loop(loop)
        assert type(made) is ErlangEventLoop
        made.close()


def test_exceptions_and_constants() -> None:
    run("names")


async def test_fastapi_in_process(loop) -> None:
    """Through ASGI, without a socket; a hundred sleep at the same time."""
    app = run("fastapi")["app"]
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert (await client.get("/delay", params={"ms": 5})).json() == {"slept_ms": 5}
        assert (await client.get("/delay", params={"ms": "soon"})).status_code == 422
        began = loop.time()
        answers = await asyncio.gather(*(client.get("/delay") for _ in range(100)))
        took = loop.time() - began
    assert [answer.json() for answer in answers] == [{"slept_ms": 100}] * 100
    # One after another they would take 10 seconds.
    assert 0.1 <= took < 5


@contextlib.contextmanager
def uvicorn_server(app: str, folder: Path) -> Iterator[str]:
    """An application under uvicorn's own command line, in a node; its address.

    Without `--loop none` uvicorn runs on asyncio's selector loop, or on uvloop.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        options = ["--fd", str(listener.fileno()), "--app-dir", str(folder)]
        options += ["--loop", "none", "--log-level", "warning"]
        with running(
            ERLANG_LOOP,
            *["-m", "uvicorn", app, *options],
            pass_fds=[listener.fileno()],
        ):
            yield address


WHICH_LOOP = """
import asyncio
from fastapi import FastAPI

app = FastAPI()

@app.get("/")
async def which_loop():
    return type(asyncio.get_running_loop()).__name__
"""


def test_uvicorn_runs_on_our_loop(tmp_path: Path) -> None:
    (tmp_path / "which_loop.py").write_text(WHICH_LOOP, encoding="utf-8")
    with uvicorn_server("which_loop:app", tmp_path) as address:
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert json.load(answer) == "ErlangEventLoop"


def test_fastapi_under_uvicorn() -> None:
    """Real HTTP from another process; requests wait in the listener until the server is there."""
    folder = Path(__file__).parent / "spec_examples"
    with uvicorn_server("asyncio_fastapi:app", folder) as address:
        with urllib.request.urlopen(f"{address}/delay?ms=20", timeout=60) as answer:
            assert json.load(answer) == {"slept_ms": 20}
        with pytest.raises(urllib.error.HTTPError, match="422") as refused:
            urllib.request.urlopen(f"{address}/delay?ms=x", timeout=60)
        refused.value.close()

        async def ask_all() -> list[object]:
            async with httpx.AsyncClient(base_url=address, timeout=60) as client:
                answers = [client.get("/delay", params={"ms": ms}) for ms in range(50)]
                return [one.json() for one in await asyncio.gather(*answers)]

        assert asyncio.run(ask_all()) == [{"slept_ms": ms} for ms in range(50)]
