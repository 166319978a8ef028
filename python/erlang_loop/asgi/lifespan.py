"""The application's start and its end: the `lifespan` protocol of ASGI."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

logger = logging.getLogger("erlang_loop.asgi")


class LifespanError(Exception):
    """The application's startup or shutdown failed."""


class Lifespan:
    """One run of the protocol, in a task of its own."""

    def __init__(self, app: Any, mode: str) -> None:
        self.app = app
        self.mode = mode
        self.state: dict[str, Any] = {}
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._reply: asyncio.Future[str | None] | None = None
        self._supported = False

    async def startup(self) -> None:
        """Raises LifespanError, with the application's exception as its cause."""
        if self.mode == "off":
            return
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        self._task = asyncio.ensure_future(self.app(scope, self._events.get, self._send))
        error = await self._ask("startup")
        if self._task.done() and not self._task.cancelled() and self._task.exception():
            cause = self._task.exception()
            if self.mode == "auto" and error is None and not self._supported:
                logger.debug("the application does not support lifespan: %r", cause)
                return
            raise LifespanError("the application's startup failed") from cause
        if error is not None:
            raise LifespanError(f"the application's startup failed: {error}")
        if not self._supported and self.mode == "on":
            raise LifespanError("the application does not support lifespan")

    async def shutdown(self) -> None:
        """Raises LifespanError, as `startup`."""
        if self._task is None or not self._supported:
            return
        task = self._task
        error = await self._ask("shutdown")
        if error is not None:
            raise LifespanError(f"the application's shutdown failed: {error}")
        if task.done() and not task.cancelled() and task.exception():
            raise LifespanError("the application's shutdown failed") from task.exception()

    async def _ask(self, event: str) -> str | None:
        """The application's message if it failed; None also if its task ended."""
        assert self._task is not None
        self._reply = asyncio.get_running_loop().create_future()
        self._events.put_nowait({"type": f"lifespan.{event}"})
        waited: set[asyncio.Future[Any]] = {self._task, self._reply}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not self._reply.done():
            return None
        if self._reply.result() is not None:
            # Starlette raises the exception after it sent its text.
            await asyncio.wait({self._task}, timeout=1)
        return self._reply.result()

    async def _send(self, message: dict[str, Any]) -> None:
        _, event, result = (*str(message["type"]).split("."), "", "")[:3]
        if (
            self._reply is None
            or self._reply.done()
            or event not in ("startup", "shutdown")
            or result not in ("complete", "failed")
        ):
            raise RuntimeError(f"unexpected message {message['type']!r} in lifespan")
        self._supported = True
        failed = result == "failed"
        self._reply.set_result(message.get("message", "") if failed else None)
