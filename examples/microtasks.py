"""Reads lines from stdin, be it a terminal, a pipe or a file, and shows in which order things run:

printf 'one\\ntwo\\n' | bin/erlang-loop examples/microtasks.py
"""

import sys

from erlang_loop.callbacks import CallbackLoop

loop = CallbackLoop()


def on_stdin(stdin):
    line = stdin.readline()
    if line:
        loop.call_soon(handle, line.strip())
        loop.call_soon(print, "  then the next callback")
    else:
        loop.remove_fd(stdin)
        loop.call_soon(loop.stop)


def handle(line):
    print(f"a callback has {line!r}")
    loop.queue_microtask(resolved, "first")
    loop.queue_microtask(print, "  second microtask")


def resolved(name):
    print(f"  {name} microtask")
    loop.next_tick(print, "  a microtask of a microtask")


loop.add_reader(sys.stdin, on_stdin)
loop.run_forever()
loop.shutdown()
