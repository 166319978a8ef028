from erlang_loop import ErlangEventLoop

# Default: uses shared global loop
shared_loop = ErlangEventLoop()

# Isolated: creates its own native loop
isolated_loop = ErlangEventLoop(isolated=True)
