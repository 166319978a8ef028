"""A loop with a callback API in the style of Node: no coroutines, the same native loop.

def on_readable(sock):
    sock.send(sock.recv(4096))

loop = CallbackLoop()
loop.add_reader(sock, on_readable)
loop.run_forever()
"""

from .interval import Interval
from .loop import CallbackLoop
from .pool import PoolCall
from .priority import HIGH, LOW, NORMAL

#: The name that other callback loops use.
EventLoop = CallbackLoop

__all__ = ["HIGH", "LOW", "NORMAL", "CallbackLoop", "EventLoop", "Interval", "PoolCall"]
