"""ErlangEventLoop: the native loop, with asyncio's own loop behind it for everything rare."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from asyncio import base_events, format_helpers, sslproto
from asyncio.log import logger
from collections.abc import Callable
from typing import Any

from . import _native, compat
from .selector_view import SelectorView
from .signals import SignalHandlers


class ErlangEventLoop(_native.Loop, SignalHandlers):
    """An asyncio event loop that lives in the Erlang VM.

    The native base comes first and has what runs on every callback; the selector loop of the
    running Python has the rest. What that loop does differently is a bug here.

    `isolated=True` gives the loop an Erlang process of its own, a `py_event_worker`: use it for
    loops in several threads. `spin` and `direct_wait` (seconds) tune how long an idle loop looks
    and waits by itself before the VM waits for it; 0 leaves the step out.
    """

    def __init__(
        self,
        *,
        isolated: bool = False,
        spin: float | None = None,
        direct_wait: float | None = None,
    ) -> None:
        # isolated, spin and direct_wait were taken by __new__, which is native.
        asyncio.SelectorEventLoop.__init__(self, SelectorView(self))

    # The native loop is woken without a pipe to itself.

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    def run_forever(self) -> None:
        """Run until stop() is called."""
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)
        old_hooks = sys.get_asyncgen_hooks()
        try:
            self._thread_id = threading.get_ident()
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook,
                finalizer=self._asyncgen_finalizer_hook,
            )
            compat.running_loop_set(self)
            listened_before = self._listen_to_python()
            try:
                self._run_turns()
            finally:
                self._stop_listening(listened_before)
        finally:
            self._stopping = False
            self._thread_id = None
            compat.running_loop_set(None)
            self._set_coroutine_origin_tracking(False)
            sys.set_asyncgen_hooks(*old_hooks)

    def close(self) -> None:
        """Close the loop: what is scheduled is dropped, the executor is shut down."""
        if self.is_closed() and not self.is_running():
            return
        if not self.is_running():
            self._close_signals()
        asyncio.SelectorEventLoop.close(self)
        self._close_native()

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        *,
        extra: dict[str, Any] | None = None,
        server: Any = None,
    ) -> _native.StreamTransport:
        self._ensure_fd_no_transport(sock)
        return _native.StreamTransport(self, sock, protocol, waiter, extra, server)

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext,
        waiter: asyncio.Future[None] | None = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        **timeouts: Any,
    ) -> asyncio.Transport:
        self._ensure_fd_no_transport(rawsock)
        tls = sslproto.SSLProtocol(
            self,
            protocol,
            sslcontext,
            waiter,  # type: ignore[arg-type]
            server_side,
            server_hostname,
            **timeouts,
        )
        _native.StreamTransport(self, rawsock, tls, None, extra, server)
        return tls._app_transport

    # Called by the native loop.

    def _transport_failed(
        self, transport: _native.StreamTransport, error: BaseException, message: str
    ) -> None:
        """A transport is about to be closed by an error. The network's are expected."""
        if isinstance(error, OSError):
            if self._debug:
                logger.debug("%r: %s", transport, message, exc_info=error)
            return
        self.call_exception_handler(
            {
                "message": message,
                "exception": error,
                "transport": transport,
                "protocol": transport.get_protocol(),
            }
        )

    def _callback_failed(self, handle: _native.Handle, error: BaseException) -> None:
        """A callback raised: tell the exception handler, as asyncio's Handle does."""
        name = compat.format_callback(handle, self._debug)
        context: dict[str, Any] = {
            "message": f"Exception in callback {name}",
            "exception": error,
            "handle": handle,
        }
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        self.call_exception_handler(context)

    def _run_handle_debug(self, handle: _native.Handle) -> None:
        """Debug mode: run a callback and say so if it took long."""
        self._current_handle = handle
        try:
            started = self.time()
            handle._run()
            took = self.time() - started
            if took >= self.slow_callback_duration:
                name = base_events._format_handle(handle)  # type: ignore[attr-defined]
                logger.warning("Executing %s took %.3f seconds", name, took)
        finally:
            self._current_handle = None

    def _creation_traceback(self) -> list[Any]:
        """Debug mode: where a handle is made, without our own frame."""
        return list(format_helpers.extract_stack(sys._getframe(1)))

    def __repr__(self) -> str:
        return (
            f"<{self.__class__.__name__} running={self.is_running()} "
            f"closed={self.is_closed()} debug={self.get_debug()}>"
        )


_Callback = Callable[..., object]
