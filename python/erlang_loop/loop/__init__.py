"""The class ErlangEventLoop: what asyncio expects of a loop, around the native one.

event_loop.py       the class itself; the other modules are parts of it
asyncio_private.py  types of the private parts of asyncio's loop that are used here
blocking.py         warnings about callbacks that block the loop
microtasks.py       callbacks that run right after the current one
nested.py           running a loop inside one of its own callbacks
signals.py          add_signal_handler
alarm.py            the wakeup fd of Python's own signal handler
subprocesses.py     child processes
io/                 connections, datagrams, TLS, the sock_* methods
views/              asyncio's private attributes, for programs that inspect them
"""

from .event_loop import ErlangEventLoop

__all__ = ["ErlangEventLoop"]
