"""Passes what Python prints and logs in a node to Erlang; see `docs/logging.md`.

streams.py      sys.stdout and sys.stderr, for group leaders
log_handler.py  a handler of `logging`, for Erlang's logger
unhandled.py    uncaught exceptions, for Erlang's logger
native.py       the parts of the native library that this package uses

Nothing is imported here: importing `logging` takes time, and not every program uses it.
"""
