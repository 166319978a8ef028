"""What Python prints and logs in a node, on its way to Erlang. `docs/logging.md` has the page.

streams.py      sys.stdout and sys.stderr, for group leaders
log_handler.py  a handler of `logging`, for Erlang's logger
unhandled.py    exceptions that nobody catches, for Erlang's logger
native.py       what the native library has for this

Nothing is imported here: `logging` takes its time, and a program may do without it.
"""
