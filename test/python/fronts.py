"""For tests of the callback and generator loops: runs a loop until the test stops it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from erlang_loop.callbacks import CallbackLoop

#: Seconds after which a test hangs.
PATIENCE = 20


def run(loop: CallbackLoop) -> None:
    """Until `loop.stop()` is called; fails if it never is."""
    late: list[bool] = []

    def too_late() -> None:
        late.append(True)
        loop.stop()

    limit = loop.call_later(PATIENCE, too_late)
    loop.run_forever()
    limit.cancel()
    assert not late, "the loop was not stopped"


def turn(loop: CallbackLoop) -> None:
    """Runs what is ready now."""
    loop.stop()
    loop.run_forever()


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets that do not block."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        yield near, far


@contextlib.contextmanager
def listener() -> Iterator[tuple[socket.socket, tuple[str, int]]]:
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        sock.listen(1024)
        yield sock, sock.getsockname()
