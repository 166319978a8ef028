"""The interface of the native library: `native/py_nif/src/native_module.rs`.

`test/python/pages/test_stub.py` compares names and signatures with the module itself.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from typing import Any, Generic, NoReturn, Self, TypeVar, final

from erlang.atom import Atom
from typing_extensions import Buffer, TypeVarTuple, Unpack

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

def _erlang_sleep(ms: float, /) -> None:
    """Sleeps on a timer of the Erlang VM, without the GIL: never shorter. For threads.

    ValueError if `ms` is negative or NaN, OverflowError if it is more than 292 years.
    """

class ChildProcess:
    """A process that is killed if the node ends while this object lives."""

    def __new__(cls, pid: int) -> ChildProcess: ...

def own_methods(loop_class: type[Loop]) -> None:
    """Give a class of loops methods of its own: CPython calls those faster than inherited ones."""

def ip_family(host: str) -> int:
    """AF_INET or AF_INET6 if this is an address, 0 if it is a name."""

def connect(
    event_loop: asyncio.AbstractEventLoop,
    protocol_factory: Callable[[], asyncio.BaseProtocol],
    host: Any,
    port: Any,
    context: Context | None,
    /,
) -> Any:
    """Begins a connection to an address. None: a name has to be looked up.

    `(transport, protocol, waiter)` if it is established, else the socket to wait for.
    """

# What Python prints and logs, for the package `erlang_output`.

def _write(stream: int, data: bytes, /) -> bool:
    """Writes to a group leader: 1 is stdout, 2 is stderr. False if Erlang takes no output."""

def _flush(stream: int, /) -> None:
    """Sends the unfinished line."""

def _log(
    level: int,
    message: str,
    created: float,
    place: tuple[str, str, str, int, str, str, str | None],
    extra: dict[str, Any] | None,
    exception: BaseException | None,
    /,
) -> bool:
    """Sends a log record; `place` is logger, module, file, line, function, thread, task.

    False if Erlang takes no records, or this one comes from a handler of Erlang's log.
    """

def runs_command() -> bool:
    """Whether this is the process of a command line (`bin/erlang-loop`)."""

def signal_watch(event_loop: asyncio.AbstractEventLoop, number: int, on: bool, /) -> bool:
    """Makes the loop call `loop._handle_signal(number)` when the signal arrives, or stops that.

    False if the Erlang VM does not release this signal.
    """

def watch_fd(
    event_loop: asyncio.AbstractEventLoop,
    fd: Any,
    writing: bool,
    edge: bool,
    oneshot: bool,
    callback: Callable[..., object],
    args: tuple[Any, ...],
    context: Context | None,
    /,
) -> Handle:
    """As `_add_reader` or `_add_writer`, once per change (`edge`) or only once (`oneshot`)."""

def rearm_fd(
    event_loop: asyncio.AbstractEventLoop,
    fd: int,
    writing: bool,
    oneshot: bool,
    handle: Handle,
    /,
) -> bool:
    """Resumes a watch; False if `handle` is no longer that watch's."""

def pause_fd(
    event_loop: asyncio.AbstractEventLoop, fd: int, writing: bool, handle: Handle, /
) -> None:
    """Pauses a watch until it is armed again."""

def call_soon_prioritized(
    event_loop: asyncio.AbstractEventLoop,
    priority: int,
    callback: Callable[..., object],
    args: tuple[Any, ...],
    context: Context | None,
    /,
) -> Handle:
    """As `call_soon`, before (-1) or after (1) callbacks without a priority."""

def set_microtask_limit(event_loop: asyncio.AbstractEventLoop, limit: int, /) -> None:
    """Limits how many microtasks those of one callback may queue."""

def set_blocking_threshold(event_loop: asyncio.AbstractEventLoop, seconds: float | None, /) -> None:
    """Calls `loop._handler_blocked(source, seconds)` for handlers that run this long."""

# Values, for the package `erlang` (native/py_nif/src/convert).

@final
class Pid:
    """An Erlang process, of this node or another."""

    def __copy__(self) -> Pid: ...
    def __deepcopy__(self, memo: object, /) -> Pid: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

@final
class Ref:
    """An Erlang reference."""

    def __copy__(self) -> Ref: ...
    def __deepcopy__(self, memo: object, /) -> Ref: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

@final
class Port:
    """An Erlang port."""

    def __copy__(self) -> Port: ...
    def __deepcopy__(self, memo: object, /) -> Port: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

@final
class Fun:
    """An Erlang fun. Calling it runs it in Erlang, as `erlang.call` does."""

    def __call__(self, *args: Any) -> Any: ...
    def async_call(self, *args: Any) -> Coroutine[Any, Any, Any]:
        """The same for coroutines: `await fun.async_call(...)`."""

    def __copy__(self) -> Fun: ...
    def __deepcopy__(self, memo: object, /) -> Fun: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

@final
class BitString:
    """The first `bits` bits of `data`, from the most significant one on."""

    def __new__(cls, data: bytes, bits: int) -> Self: ...
    @property
    def data(self) -> bytes: ...
    @property
    def bits(self) -> int: ...
    def __len__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

@final
class SharedBuffer(Buffer):
    """A writable buffer of `size` zeroes that Erlang and other processes can map.

    A memoryview or numpy array of all of it is sent once without a copy. What is written to it
    afterwards is not seen there.
    """

    def __new__(cls, size: int) -> Self: ...
    def __len__(self) -> int: ...

@final
class ObjectHandle(Generic[_T]):
    """Sent to Erlang as a reference; when that comes back, it is `value` again."""

    def __new__(cls, value: _T) -> Self: ...
    @property
    def value(self) -> _T: ...

def _atom(name: str, existing_only: bool, /) -> Atom:
    """The atom of this name, created if necessary; ValueError if that is not allowed."""

def _set_encoder(cls: type, function: Callable[[Any], Any] | None) -> None:
    """Set or, with None, remove the encoder of exactly this class."""

def _set_decoder(tag: Atom, function: Callable[..., Any] | None) -> None:
    """Set or, with None, remove the decoder of tuples with this tag and of structs."""

def _echo(value: Any) -> Any:
    """To a term and back, on the calling thread; `erlang.ConversionError`."""

# Questions to Erlang and messages, for the package `erlang` (native/py_nif/src/questions).

@final
class Question:
    """A question to Erlang whose reply goes to a future of the running loop."""

    @property
    def future(self) -> asyncio.Future[Any] | None:
        """None when it has its result."""

    def abandon(self) -> None:
        """The caller no longer waits: the process that runs the question is stopped."""

class Channel:
    """The reading end of a channel. `erlang.Channel` is its subclass."""

    def __new__(cls, made: Ref) -> Self: ...
    @property
    def is_bytes(self) -> bool: ...
    @property
    def closed(self) -> bool:
        """Whether no more items can be sent. There may be items to read."""

    def _take(self, view: bool = False) -> tuple[Any] | None:
        """The next item, if there is one now. EOFError at the end."""

    def _wait(self, timeout: float | None) -> bool:
        """Blocks the thread until an item or the end, without the GIL. False after a timeout."""

    def _want(self) -> ChannelWaiter | None:
        """Waits for an item on the running loop. None: there is one, or the end."""

    def _close(self, error: BaseException | None = None) -> None:
        """Drops all items. Senders get `{error, closed}`, or the exception."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

@final
class ChannelWaiter:
    """A task that waits for an item of a channel."""

    @property
    def future(self) -> asyncio.Future[None]: ...
    def abandon(self) -> None:
        """The task no longer waits; another one may be notified."""

@final
class Mailbox:
    """The messages to the pid of a task, or of a thread if there is no `owner`."""

    def __new__(cls, owner: Any = None, made: Ref | None = None) -> Self: ...
    @property
    def pid(self) -> Pid: ...
    @property
    def ended(self) -> bool: ...
    def take(self) -> tuple[Any] | None:
        """The next message, if there is one."""

    def take_exit(self) -> tuple[Pid, Any] | None:
        """Pid and reason of a linked process that has died."""

    def want(self) -> bool:
        """Requests a call of `owner()._arrived()` for the next message; False if there is one."""

    def wait(self, timeout: float | None) -> bool:
        """Blocks the thread until a message, without the GIL. False after a timeout."""

    def ask(self, function: str, args: list[Any]) -> asyncio.Future[Any]:
        """Makes the process monitor, demonitor, link or unlink; `erlang.Error` if it has ended."""

    def link(self, pid: Pid) -> None:
        """From now on `_arrived` reports the death of this process."""

    def unlink(self, pid: Pid) -> bool:
        """False: it has died before."""

    def flush(self, monitor: Ref) -> None:
        """Removes the message of a monitor that has been ended."""

    def end(self, error: BaseException | None = None, cancelled: bool = False) -> None:
        """Ends the process."""

def _ask(module: str, function: str, args: Sequence[Any], node: str | None, /) -> Question:
    """`erlang.async_call`, up to the `await`."""

def _ask_fun(fun: Fun, args: Sequence[Any], /) -> Question:
    """As `_ask`, of a fun."""

def _call(
    module: str, function: str, args: Sequence[Any], timeout: float | None, node: str | None, /
) -> Any:
    """`erlang.call`: waits for the reply, without the GIL."""

def _cast(module: str, function: str, args: Sequence[Any], node: str | None, /) -> None:
    """`erlang.cast`"""

def _caller_in(context: Context, /) -> Pid | None:
    """The Erlang process that asked for the code that runs in this context."""

def _caller_trace() -> str | None:
    """The `traceparent` of the Erlang process that asked for the code that runs."""

def _begin_traces() -> None:
    """From now on calls to Erlang carry the trace that Python is in."""

def _protect() -> int:
    """`erlang.uninterruptible` begins. Returns a number for `_resume`."""

def _resume(number: int, /) -> None:
    """`erlang.uninterruptible` ends: raises an interrupt that came meanwhile."""

def _on_interrupt(callback: Callable[[], object] | None, /) -> Callable[[], object] | None:
    """Has this called when the call on this thread is interrupted, by the thread that does that.
    Returns the callback before."""

def _unraisable_hook(
    hook: Callable[[sys.UnraisableHookArgs], object], /
) -> Callable[[sys.UnraisableHookArgs], None]:
    """`sys.unraisablehook`. An interrupt that was raised where Python ignores exceptions is raised
    again, behind that code; everything else goes to `hook`."""

def _send(dest: Pid | Ref | str | tuple[str, str], message: Any, /) -> None:
    """`erlang.send`"""

# To a type checker the handles are asyncio's, because the loop's methods return them in place of
# asyncio's. At run time they have the same attributes and methods, but another base.

class Handle(asyncio.Handle):
    """A callback that waits for its turn. Only the loop creates it."""

    @property
    def _callback(self) -> Callable[..., object] | None: ...
    @property
    def _args(self) -> tuple[Any, ...] | None: ...  # type: ignore[override]
    @property
    def _context(self) -> Context: ...
    @property
    def _loop(self) -> Loop: ...
    @property
    def _cancelled(self) -> bool: ...  # type: ignore[override]
    @property
    def _source_traceback(self) -> list[Any] | None: ...
    def cancel(self) -> None: ...
    def cancelled(self) -> bool: ...
    def get_context(self) -> Context: ...
    def _run(self) -> None: ...
    def _repr_info(self) -> list[str]: ...

@final
class TimerHandle(Handle, asyncio.TimerHandle):
    """A handle with a time."""

    @property
    def _when(self) -> float: ...
    @property
    def _scheduled(self) -> bool: ...
    def when(self) -> float: ...
    def cancel(self) -> None: ...
    def _repr_info(self) -> list[str]: ...
    def __hash__(self) -> int: ...
    def __lt__(self, other: object) -> bool: ...
    def __le__(self, other: object) -> bool: ...
    def __gt__(self, other: object) -> bool: ...
    def __ge__(self, other: object) -> bool: ...
    def __eq__(self, other: object) -> bool: ...

class Loop:
    """The native base of ErlangEventLoop: ready queue, timers, fds, the turn."""

    def __new__(
        cls,
        isolated: bool = False,
        *,
        spin: float | None = None,
        direct_wait: float | None = None,
    ) -> Self: ...
    def call_soon(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> Handle: ...
    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> Handle: ...
    def queue_microtask(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> Handle: ...
    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> TimerHandle: ...
    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> TimerHandle: ...
    def add_reader(self, fd: Any, callback: Callable[[Unpack[_Ts]], Any], *args: *_Ts) -> None: ...
    def add_writer(self, fd: Any, callback: Callable[[Unpack[_Ts]], Any], *args: *_Ts) -> None: ...
    def remove_reader(self, fd: Any) -> bool: ...
    def remove_writer(self, fd: Any) -> bool: ...
    def create_task(self, coro: Any, **kwargs: Any) -> asyncio.Task[Any]: ...
    def create_future(self) -> asyncio.Future[Any]: ...
    def time(self) -> float: ...
    def stop(self) -> None: ...
    def get_debug(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def _check_closed(self) -> None: ...
    def is_running(self) -> bool: ...
    def _add_reader(
        self, fd: Any, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle: ...
    def _add_writer(
        self, fd: Any, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle: ...
    def _remove_reader(self, fd: Any) -> bool: ...
    def _remove_writer(self, fd: Any) -> bool: ...
    def _ready_append(self, handle: Handle) -> None: ...
    def _ready_clear(self) -> None: ...
    def _ready_handles(self) -> list[Handle]: ...
    def _timer_handles(self) -> list[TimerHandle]: ...
    def _timers_clear(self) -> None: ...
    def _write_to_self(self) -> None: ...
    def _fd_handles(self, fd: int) -> tuple[Handle | None, Handle | None]: ...
    def _watched_fds(self) -> list[int]: ...
    def _transport_of(self, fd: int) -> Any: ...
    def _all_transports(self) -> list[tuple[int, Any]]: ...
    def _put_transport(self, fd: int, transport: Any) -> None: ...
    def _take_transport(self, fd: int) -> bool: ...
    def _look_at_clock(self) -> None: ...
    def _run_once(self) -> None: ...
    def _run_turns(self) -> None: ...
    def _call_before_sleep(self) -> None: ...
    def _close_native(self) -> None: ...
    def _counters(self) -> dict[str, int]: ...
    @property
    def _number(self) -> int: ...
    def _request_tasks(self) -> list[tuple[Any, Pid, int, int]]: ...
    _debug: bool
    _stopping: bool
    _closed: bool
    _task_factory: Any
    _thread_id: int | None
    @property
    def _loop_handle(self) -> int | None: ...

# For `erlang_loop.loop.io.tls`.

class TlsPath:
    """The data path of an established TLS connection."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def _do_read(self) -> None: ...
    def _process_outgoing(self) -> None: ...

class TlsWriter:
    """The transport through which an application writes to one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def write(self, data: Buffer) -> None: ...

# Parameters that are loops must be a Loop. They are typed as asyncio's class, because the parts of
# ErlangEventLoop that pass themselves have that type for a type checker.

@final
class SockOperation:
    """A `sock_*` method that waits for its socket."""

    MOST: int

    @staticmethod
    def retry(
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        fd: int,
        writing: bool,
        method: str,
        arguments: tuple[Any, ...],
    ) -> SockOperation: ...
    @staticmethod
    def send_all(
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        fd: int,
        view: memoryview,
        sent: int,
    ) -> SockOperation: ...
    @staticmethod
    def recv(loop: asyncio.AbstractEventLoop, sock: socket.socket, most: int) -> Any: ...
    def finish(self) -> None: ...
    @property
    def future(self) -> asyncio.Future[Any]: ...

@final
class Acceptor:
    """Accepts the new connections of a listening socket whenever it is called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        sock: socket.socket,
        server: Any,
        backlog: int,
        context: Context | None,
    ) -> None: ...
    def __call__(self) -> None: ...
    @property
    def sock(self) -> socket.socket: ...

class Transport(asyncio.BaseTransport):
    """What native transports have in common."""

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...
    def get_protocol(self) -> asyncio.BaseProtocol: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def _fatal_error(self, exc: BaseException, message: str | None = None) -> None: ...
    def _call_connection_lost(self, exc: BaseException | None) -> None: ...
    @property
    def _sock(self) -> socket.socket | None: ...
    @property
    def _sock_fd(self) -> int: ...
    @property
    def _loop(self) -> Loop | None: ...
    @property
    def _protocol(self) -> asyncio.BaseProtocol | None: ...
    @property
    def _server(self) -> Any: ...
    @property
    def _extra(self) -> dict[str, Any]: ...
    _protocol_paused: bool
    @property
    def _conn_lost(self) -> int: ...
    @property
    def _closing(self) -> bool: ...
    @property
    def _paused(self) -> bool: ...
    def __del__(self) -> None: ...

@final
class StreamTransport(Transport, asyncio.Transport):
    """A connected byte stream, like asyncio's `_SelectorSocketTransport`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        context: Context | None = None,
    ) -> None: ...
    def write(self, data: Buffer) -> None: ...
    def writelines(self, list_of_data: Iterable[Buffer]) -> None: ...
    def write_eof(self) -> None: ...
    def can_write_eof(self) -> bool: ...
    def get_write_buffer_size(self) -> int: ...
    def get_write_buffer_limits(self) -> tuple[int, int]: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def is_reading(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def _force_close(self, exc: BaseException | None) -> None: ...
    def _call_connection_lost(self, exc: BaseException | None) -> None: ...
    def _make_empty_waiter(self) -> asyncio.Future[None]: ...
    def _reset_empty_waiter(self) -> None: ...
    @property
    def _eof(self) -> bool: ...
    @property
    def _sendfile_compatible(self) -> Any: ...
    _start_tls_compatible: bool

@final
class DatagramTransport(Transport, asyncio.DatagramTransport):
    """Datagrams over a socket, like asyncio's `_SelectorDatagramTransport`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        protocol: asyncio.DatagramProtocol,
        address: Any = None,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def sendto(self, data: Buffer, addr: Any = None) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def get_write_buffer_limits(self) -> tuple[int, int]: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def is_reading(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def _force_close(self, exc: BaseException | None) -> None: ...
    @property
    def _address(self) -> Any: ...

class PipeTransport(Transport):
    """What both ends of a pipe have in common."""

    def _close(self, exc: BaseException | None = None) -> None: ...
    _pipe: Any
    @property
    def _fileno(self) -> int: ...

@final
class ReadPipeTransport(PipeTransport, asyncio.ReadTransport):
    """The read end of a pipe, like asyncio's `_UnixReadPipeTransport`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def is_reading(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

@final
class WritePipeTransport(PipeTransport, asyncio.Transport):
    """The write end of a pipe, like asyncio's `_UnixWritePipeTransport`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def write(self, data: Buffer) -> None: ...
    def writelines(self, list_of_data: Iterable[Buffer]) -> None: ...
    def write_eof(self) -> None: ...
    def can_write_eof(self) -> bool: ...
    def get_write_buffer_size(self) -> int: ...
    def get_write_buffer_limits(self) -> tuple[int, int]: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def is_reading(self) -> NoReturn: ...
    def pause_reading(self) -> NoReturn: ...
    def resume_reading(self) -> NoReturn: ...
    def abort(self) -> None: ...
    @property
    def _conn_lost(self) -> int: ...

class DisconnectedError(OSError):
    """The client has gone: what is sent has no receiver."""

@final
class WebSocketFrames:
    """The frames of one WebSocket, on the server's side: no input or output of its own."""

    def __init__(self, max_size: int, deflate: tuple[bool, bool, int] | None = None) -> None:
        """`deflate`: whether the server forgets the messages before, whether the client does, and
        the bits of the server's window."""

    def receive(self, data: bytes) -> list[Any]:
        """What the bytes complete: messages as `str` or `bytes`, and tuples `("ping", data)`,
        `("pong", data)`, `("close", code, reason)` and `("failed", code, reason)`. Nothing follows
        one of the last two."""

    def message(self, data: Any) -> bytes:
        """The frame of a message."""

    def close(self, code: int, reason: str) -> bytes:
        """The close frame; ValueError if the code or the reason's length is invalid."""

    def ping(self, data: bytes) -> bytes: ...
    def pong(self, data: bytes) -> bytes: ...

@final
class HttpServer:
    """What the connections of an ASGI server share; called, a protocol for a new one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run: Callable[[dict[str, Any], HttpRequest], Coroutine[Any, Any, None]],
        upgrade: Callable[[Any, dict[str, Any], bytes], None],
        template: dict[str, Any],
        *,
        access_log: Callable[[dict[str, Any], int, float], None] | None = None,
        notify: Callable[[str], None] | None = None,
        default_headers: bytes = ...,
        date_header: bool = True,
        head_size: int = 65536,
        body_size: int = 0,
        concurrency: int = 0,
        max_requests: int = 0,
        head_time: int = 30,
        keep_alive_time: int = 5,
        disconnect_grace: int | None = None,
        proxy_protocol: bool = False,
    ) -> None: ...
    def __call__(self) -> HttpConnection: ...
    def counts(self) -> tuple[int, int, int]:
        """Open connections, requests in progress, requests since the start."""
    def drain(self, at_once: bool) -> None:
        """Make the next response of each connection its last, and close idle ones `at_once`."""
    def abort(self) -> None:
        """Cancel what still runs, and close all connections."""
    def _sweep(self) -> None: ...

@final
class HttpConnection(asyncio.Protocol):
    """The protocol of one connection to an ASGI server."""

    def connection_made(self, transport: Any) -> None: ...
    def data_received(self, data: Buffer) -> None: ...
    def eof_received(self) -> bool: ...
    def connection_lost(self, error: BaseException | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def _advance(self) -> None: ...

@final
class HttpRequest:
    """One request with its response."""

    def receive(self) -> Coroutine[Any, Any, dict[str, Any]]: ...
    def send(self, message: Any) -> Coroutine[Any, Any, None]: ...
    def end(self) -> str | None:
        """The application has returned or raised. Return what is missing of its response."""
    @property
    def disconnected(self) -> bool:
        """Whether the client has gone."""
    def _sent_file(self) -> None: ...
