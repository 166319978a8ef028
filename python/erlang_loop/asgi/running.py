"""One request in its task, and what becomes of its errors. Native code starts the task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from erlang_loop._native import DisconnectedError, HttpRequest

#: An application that calls `sys.exit()` ends its request, not the requests of others.
EXITS = (SystemExit, KeyboardInterrupt)

logger = logging.getLogger("erlang_loop.asgi")


def runner(app: Any) -> Callable[[dict[str, Any], HttpRequest], Coroutine[Any, Any, None]]:
    """The function that native code calls for each request."""

    async def run(scope: dict[str, Any], request: HttpRequest) -> None:
        try:
            await app(scope, request.receive, request.send)
        except asyncio.CancelledError:
            request.end()
            raise
        except (Exception, *EXITS) as error:
            request.end()
            if not (request.disconnected and is_disconnect(error)):
                name = f"{scope['method']} {scope['path']}"
                logger.exception("Exception in the ASGI application, %s", name)
        else:
            missing = request.end()
            if missing is not None:
                name = f"{scope['method']} {scope['path']}"
                logger.error("The ASGI application returned %s, %s", missing, name)

    return run


def is_disconnect(error: BaseException | None) -> bool:
    """Whether it is the consequence of a client that went away."""
    while error is not None:
        if isinstance(error, DisconnectedError):
            return True
        if isinstance(error, BaseExceptionGroup):
            return all(is_disconnect(one) for one in error.exceptions)
        error = error.__cause__ or error.__context__
    return False
