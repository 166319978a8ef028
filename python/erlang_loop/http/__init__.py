"""A small HTTP/1.1 server on a CallbackLoop.

def hello(request, response):
    response.send(b"hello")

server = HttpServer(loop, hello, "127.0.0.1", 8080)
loop.run_forever()

The parser is h11, from PyPI.
"""

try:
    import h11  # noqa: F401
except ImportError:
    raise ImportError("erlang_loop.http needs the package h11: `pip install h11`") from None

from .connection import State
from .limits import Limits
from .messages import Request, Response
from .server import HttpServer

__all__ = ["HttpServer", "Limits", "Request", "Response", "State"]
