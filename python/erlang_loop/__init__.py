"""asyncio on the Erlang VM: a complete event loop, run by native code inside a node.

asyncio.run(main(), loop_factory=erlang_loop.new_event_loop)  # Python 3.12 and newer
erlang_loop.run(main())  # any Python
"""

try:
    from . import _native  # noqa: F401
except ImportError:
    raise ImportError(
        "erlang_loop works inside an Erlang node: run your program with `bin/erlang-loop "
        "program.py`, or start the erlang_loop application in your own node"
    ) from None

from .loop import ErlangEventLoop
from .policy import EventLoopPolicy, get_event_loop_policy
from .running import new_event_loop, run

__all__ = [
    "ErlangEventLoop",
    "EventLoopPolicy",
    "get_event_loop_policy",
    "new_event_loop",
    "run",
]

__version__ = "0.1.0"
