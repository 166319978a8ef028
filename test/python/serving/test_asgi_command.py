"""Does `-m erlang_loop.asgi` serve, end with 0 on SIGTERM, and say why it cannot start?"""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from command import ROOT
from erlang_loop.asgi import AppImportError, Config, import_app

PROGRAM = [str(ROOT / "bin" / "erlang-loop"), "-m", "erlang_loop.asgi"]
APP = """
import os

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            print(event, flush=True)
            await send({"type": f"lifespan.{event}.complete"})
        return
    await send({"type": "http.response.start", "status": 200})
    body = str(os.getpid()) if scope["path"] == "/pid" else scope["scheme"]
    await send({"type": "http.response.body", "body": body.encode()})

def factory():
    return app

async def failing(scope, receive, send):
    await receive()
    raise ValueError("no database")

number = 7
"""


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server, and where it serves."""
    (folder / "served.py").write_text(APP)
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"Serving on (\S+)", line)
            assert found, line + process.stderr.read()
            yield process, found[1]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_a_signal(tmp_path, number):
    with command(tmp_path, "served:app", "--port", "0") as (process, address):
        assert urllib.request.urlopen(address).read() == b"http"
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.split() == ["startup", "shutdown"]


def test_tls_and_a_factory(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    options = ["--factory", "--port", "0", "--ssl-certfile", "cert.pem"]
    with command(tmp_path, "served:factory", *options) as (_, address):
        assert urllib.request.urlopen(address, context=context).read() == b"https"


def test_two_processes_share_a_port(tmp_path):
    shared = ["served:app", "--reuse-port", "--port"]
    with command(tmp_path, *shared, "0") as (_, address):
        port = address.rpartition(":")[2]
        with command(tmp_path, *shared, port) as (_, second):
            assert second == address
            assert urllib.request.urlopen(address).read() == b"http"


def test_unix_socket(tmp_path, short_path):
    path = short_path / "socket"
    with command(tmp_path, "served:app", "--uds", str(path)) as (process, address):
        assert address == f"unix:{path}"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with client.makefile("rb") as response:
                assert response.read().endswith(b"http")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nothing_like_it:app"], 1, "there is no module 'nothing_like_it'"),
        (["served:failing", "--lifespan", "on"], 1, "ValueError: no database"),
        (["served:app", "--host", "203.0.113.1"], 1, "203.0.113.1:0"),
        (["served:app", "--ssl-certfile", "missing.pem"], 1, "invalid certificate missing.pem"),
        (["served:app", "--unknown"], 2, "--unknown"),
        (["served:app", "--reuse-port", "--uds", "never"], 1, "is for a host and a port"),
        (["served:app", "--forwarded-allow-ips", "*"], 1, "needs proxy_headers"),
    ],
)
def test_does_not_start(tmp_path, arguments, code, text):
    (tmp_path / "served.py").write_text(APP)
    done = subprocess.run(
        [*PROGRAM, *arguments, "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert text in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", "must have the form 'module:attribute'"),
        ("json:nothing", "has no attribute 'nothing'"),
        ("json:__name__", "is not an ASGI application"),
    ],
)
def test_no_application(name, text):
    with pytest.raises(AppImportError, match=re.escape(text)):
        import_app(name)


@pytest.mark.parametrize(
    "options",
    [
        {"limit_request_body": -1},
        {"lifespan": "sometimes"},
        {"root_path": "x"},
        {"headers": [("a", "b\r\nc: d")]},
        {"limit_request_head": 1},
        {"forwarded_allow_ips": "*"},
        {"forwarded_allow_ips": "10.0.0.1/8", "proxy_headers": True},
    ],
)
def test_invalid_options(options):
    with pytest.raises(ValueError, match=next(iter(options)).rstrip("s")):
        Config(**options)


def workers_of(address: str) -> set[bytes]:
    """The processes that serve: the kernel gives connections to any of them."""
    return {urllib.request.urlopen(f"{address}/pid").read() for _ in range(20)}


def test_workers(tmp_path):
    with command(tmp_path, "served:app", "--port", "0", "--workers", "2") as (process, address):
        assert process.stderr is not None
        before = workers_of(address)
        assert str(process.pid).encode() not in before
        os.kill(int(min(before)), signal.SIGKILL)
        line = process.stderr.readline()
        assert line == "WARNING: A worker has ended with -9 and is replaced\n"
        # The other one serves, or the next one as soon as it can.
        assert workers_of(address) != {min(before)}

        (tmp_path / "served.py").write_text(APP.replace('scope["scheme"]', '"new"'))
        process.send_signal(signal.SIGHUP)
        while urllib.request.urlopen(address).read() != b"new":
            pass
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert err == ""
    # One of them was killed.
    assert out.split().count("startup") == out.split().count("shutdown") + 1


def test_workers_end_with_the_program(tmp_path):
    with command(tmp_path, "served:app", "--port", "0", "--workers", "2") as (process, _):
        process.kill()
        # Their ends of the pipe close when they end.
        out, _ = process.communicate(timeout=20)
    assert out.split() == ["startup"] * 2 + ["shutdown"] * 2


def test_workers_that_do_not_start():
    done = subprocess.run(
        [*PROGRAM, "no_such_module:app", "--port", "0", "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "no_such_module" in done.stderr
