"""`python -m erlang_loop_node`: the same as the command `erlang-loop`."""

from . import main

main()
