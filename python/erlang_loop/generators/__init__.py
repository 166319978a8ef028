"""Tasks that are generators: they yield what they wait for and are resumed when it happens.

def echo(conn):
    with conn:
        while True:
            yield from await_read(conn)
            data = conn.recv(4096)
            if not data:
                return
            yield from await_write(conn)
            conn.sendall(data)

loop = GeneratorLoop()
loop.create_task(echo(conn))
loop.run_forever()
"""

from .loop import GeneratorLoop
from .requests import READ, WRITE, await_read, await_write, in_pool, join, sleep
from .task import Task, TaskCancelledError

#: The name that other generator loops use.
EventLoop = GeneratorLoop

__all__ = [
    "READ",
    "WRITE",
    "EventLoop",
    "GeneratorLoop",
    "Task",
    "TaskCancelledError",
    "await_read",
    "await_write",
    "in_pool",
    "join",
    "sleep",
]
