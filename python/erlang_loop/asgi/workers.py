"""`--workers N`: this process owns the listening socket, and N programs of their own serve it.

Each worker is `python -m erlang_loop.asgi` again, in a node of its own, with the socket as an
inherited descriptor. It writes a byte to a pipe once it serves, and drains when another pipe ends,
whose writing end only this process has: however this process ends, no worker is left. A byte before
that end means that others go on to serve.

| signal | effect |
|---|---|
| SIGTERM, SIGINT | all workers drain; a second one kills them |
| SIGHUP | the application is imported again, by new workers, and the old ones drain |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence

logger = logging.getLogger("erlang_loop.asgi")

#: Tells a worker its descriptors: the pipe to write to, and the pipe that ends.
VARIABLE = "ERLANG_LOOP_ASGI_WORKER"
#: bin/erlang-loop, as it was called.
PROGRAM = os.path.abspath(sys.orig_argv[0])
#: More than this many ends of workers within PERIOD seconds end the program.
MOST_ENDS = 10
PERIOD = 10.0


class Workers:
    """A number of workers, each replaced when it ends."""

    def __init__(
        self,
        count: int,
        listener: socket.socket,
        arguments: Sequence[str],
        all_serve: Callable[[], None],
    ) -> None:
        self._all_serve = all_serve
        self._missing = count
        self._listener = listener
        self._arguments = [*without_places(arguments), "--fd", str(listener.fileno())]
        self._places = [asyncio.Event() for _ in range(count)]
        self._workers: set[Worker] = set()
        self._stopping = False
        self._reloads = 0
        self._ends: list[float] = []

    async def run(self) -> int:
        """The exit code: 1 if a worker does not start, or if they end again and again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        keepers = [asyncio.ensure_future(self._keep(place)) for place in self._places]
        failed = False
        for keeper in asyncio.as_completed(keepers):
            if not await keeper and not failed:
                failed = True
                self._stop()
        return int(failed)

    async def _keep(self, place: asyncio.Event) -> bool:
        """Keeps one worker in this place. False: one did not start."""
        reloads = self._reloads
        worker = await self._started(place)
        if worker is not None:
            self._missing -= 1
            if self._missing == 0:
                self._all_serve()
        while worker is not None and not self._stopping:
            await place.wait()
            place.clear()
            if worker.has_ended and not self._stopping:
                if self._too_many():
                    logger.error("Workers end again and again")
                    return False
                level = logging.WARNING if worker.status else logging.INFO
                logger.log(level, "A worker has ended with %s and is replaced", worker.status)
                reloads = self._reloads
                worker = await self._started(place)
            elif reloads != self._reloads and not self._stopping:
                reloads = self._reloads
                if (new := await self._started(place)) is not None:
                    worker.drain(replaced=True)
                    worker = new
                elif not self._stopping:
                    logger.error("The new worker does not start: the old one goes on")
        for left in self._workers:
            left.drain()
        while self._workers:
            await place.wait()
            place.clear()
        return self._stopping or worker is not None

    async def _started(self, place: asyncio.Event) -> Worker | None:
        """One that serves."""
        worker = Worker()
        self._workers.add(worker)

        def ended() -> None:
            self._workers.discard(worker)
            self._notify()

        await worker.start(self._listener, self._arguments, ended)
        if self._stopping:
            worker.drain()
        return worker if await worker.serves() else None

    def _too_many(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._ends = [at for at in self._ends if now - at < PERIOD] + [now]
        return len(self._ends) > max(MOST_ENDS, 2 * len(self._places))

    def _notify(self) -> None:
        for place in self._places:
            place.set()

    def _reload(self) -> None:
        self._reloads += 1
        self._notify()

    def _stop(self) -> None:
        again, self._stopping = self._stopping, True
        for worker in list(self._workers):
            worker.kill() if again else worker.drain()
        self._notify()


class Worker:
    """One process."""

    def __init__(self) -> None:
        self.has_ended = False
        self.status: int | None = None
        self._alive = -1
        self._ready: asyncio.StreamReader | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: asyncio.Task[None] | None = None

    async def start(
        self, listener: socket.socket, arguments: Sequence[str], ended: Callable[[], None]
    ) -> None:
        """Starts it. `ended` is called when it has ended."""
        told, tells = os.pipe()
        lives, self._alive = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                PROGRAM,
                "-m",
                "erlang_loop.asgi",
                *arguments,
                pass_fds=(listener.fileno(), tells, lives),
                env={**os.environ, VARIABLE: f"{tells},{lives}"},
                # A SIGINT of the terminal is for the program, which drains its workers.
                start_new_session=True,
            )
        finally:
            os.close(tells)
            os.close(lives)
        loop = asyncio.get_running_loop()
        self._ready = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self._ready)
        await loop.connect_read_pipe(lambda: protocol, open(told, "rb", buffering=0))  # noqa: ASYNC230, SIM115
        self._waiting = loop.create_task(self._wait(ended))

    async def _wait(self, ended: Callable[[], None]) -> None:
        assert self._process is not None
        self.status = await self._process.wait()
        self.has_ended = True
        self.drain()
        ended()

    async def serves(self) -> bool:
        """Waits until it serves, or has ended."""
        assert self._ready is not None
        return await self._ready.read(1) != b""

    def drain(self, *, replaced: bool = False) -> None:
        """Lets it end."""
        if self._alive != -1:
            if replaced:
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._alive, b".")
            os.close(self._alive)
            self._alive = -1

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def without_places(arguments: Sequence[str]) -> list[str]:
    """The arguments of a worker: it listens on the socket of this process, alone."""
    kept = []
    skip = False
    for argument in arguments:
        name, has_value, _ = argument.partition("=")
        if skip:
            skip = False
        elif name in ("--host", "--port", "--uds", "--fd", "--workers"):
            skip = not has_value
        elif name != "--reuse-port":
            kept.append(argument)
    return kept


class Parent:
    """In a worker: the program that started it."""

    def __init__(self) -> None:
        told, lives = os.environ.pop(VARIABLE).split(",")
        self._told, self._lives = int(told), int(lives)
        for descriptor in (self._told, self._lives):
            os.set_inheritable(descriptor, False)

    def tell(self) -> None:
        """The server accepts connections."""
        os.write(self._told, b".")
        os.close(self._told)

    def watch(self, stop: Callable[[bool], None]) -> None:
        """Calls `stop` when the program wants this worker to end, or has ended itself: with whether
        others go on to serve."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._lives)
            replaced = os.read(self._lives, 1) != b""
            os.close(self._lives)
            stop(replaced)

        loop.add_reader(self._lives, ended)


def parent() -> Parent | None:
    """The program that started this one as a worker, if one did."""
    return Parent() if VARIABLE in os.environ else None
