"""asyncio on the Erlang VM: a complete event loop, run by native code inside a node.

asyncio.run(main(), loop_factory=erlang_loop.new_event_loop)  # Python 3.12 and newer
erlang_loop.run(main())  # any Python
"""

try:
    from . import _native
except ImportError:
    from erlang_loop_default import not_here

    raise not_here("erlang_loop") from None

from .loop import ErlangEventLoop
from .peers import PeerDown, PeerPoolExecutor
from .policy import EventLoopPolicy, get_event_loop_policy
from .running import new_event_loop, run

__all__ = [
    "ErlangEventLoop",
    "EventLoopPolicy",
    "PeerDown",
    "PeerPoolExecutor",
    "get_event_loop_policy",
    "new_event_loop",
    "run",
]

#: The class of transports over stream sockets, under its public name.
_ErlangSocketTransport = _native.StreamTransport

__version__ = "0.2.0"
