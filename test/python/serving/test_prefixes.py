"""Do several applications behind one port each get their own requests, state and lifespan?"""

from __future__ import annotations

import pytest
from erlang_loop.asgi.lifespan import LifespanError
from erlang_loop.asgi.prefixes import Prefixes
from serving_apps import get, respond, server_of, serving, talk

pytestmark = pytest.mark.ours


class Named:
    """Says its name, what its lifespan stored, and how it was called."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name, self.log, self.fails = name, log, fails

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.live(scope, receive, send)
            return
        text = f"{self.name} {scope['state']['of']} {scope['root_path']} {scope['path']}"
        await respond(send, text.encode())

    async def live(self, scope, receive, send):
        for event in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{event}"
            self.log.append(f"{event} {self.name}")
            if self.fails == event:
                raise ZeroDivisionError(self.name)
            scope["state"]["of"] = self.name
            await send({"type": f"lifespan.{event}.complete"})


async def body(address, path, *headers):
    return (await talk(address, get(path, *headers))).split(b"\r\n\r\n", 1)[1].decode()


def test_the_longest_prefix_decides(loop):
    log: list[str] = []

    async def main():
        apps = {name: Named(name, log) for name in ("/", "/api", "/api/v2/")}
        async with serving(Prefixes(apps, "auto")) as address:
            assert await body(address, "/") == "/ /  /"
            assert await body(address, "/apis") == "/ /  /apis"
            assert await body(address, "/api") == "/api /api /api /api"
            assert await body(address, "/api/v1/x") == "/api /api /api /api/v1/x"
            assert await body(address, "/api/v2/x") == "/api/v2/ /api/v2/ /api/v2 /api/v2/x"

    loop.run_until_complete(main())
    names = ["/api/v2/", "/api", "/"]
    assert log == [f"startup {n}" for n in names] + [f"shutdown {n}" for n in reversed(names)]


def test_a_path_without_an_application(loop):
    async def main():
        async with serving(Prefixes({"/api": Named("api", [])}, "auto")) as address:
            assert (await talk(address, get("/"))).startswith(b"HTTP/1.1 404 ")
            upgrade = (
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version: 13",
            )
            refused = await talk(address, get("/other", *upgrade, close=False))
            assert refused.startswith(b"HTTP/1.1 403 ")

    loop.run_until_complete(main())


def test_a_startup_that_fails_ends_those_that_have_started(loop):
    log: list[str] = []

    async def main():
        apps = {"/first": Named("first", log), "/": Named("second", log, fails="startup")}
        with pytest.raises(LifespanError) as failed:
            async with server_of(Prefixes(apps, "on")):
                pass
        assert isinstance(failed.value.__cause__, ZeroDivisionError)

    loop.run_until_complete(main())
    assert log == ["startup first", "startup second", "shutdown first"]


def test_a_shutdown_that_fails_leaves_none_running(loop):
    log: list[str] = []

    async def main():
        apps = {"/a": Named("a", log), "/": Named("b", log, fails="shutdown")}
        with pytest.raises(LifespanError, match=r"shutdown failed: ZeroDivisionError\('b'\)"):
            async with server_of(Prefixes(apps, "on")):
                pass

    loop.run_until_complete(main())
    assert log == ["startup a", "startup b", "shutdown b", "shutdown a"]


def test_applications_without_lifespan(loop):
    async def plain(scope, receive, send):
        assert scope["type"] == "http"
        await respond(send, b"plain")

    async def main():
        async with serving(Prefixes({"/": plain}, "auto")) as address:
            assert await body(address, "/x") == "plain"

    loop.run_until_complete(main())
