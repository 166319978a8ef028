"""An ASGI server on this loop: docs/serving.md.

| module | contents |
|---|---|
| `config` | the options, and what they mean |
| `importing` | the application, by its name |
| `lifespan` | the application's start and its end |
| `running` | one request in its task, and what becomes of its errors |
| `server` | listening, draining, closing |
| `handshake` | the opening handshake of a WebSocket |
| `websocket` | one WebSocket: messages, closing |
| `wsgi` | WSGI applications, on threads |
| `sockets` | listening sockets |
| `files` | `http.response.pathsend` |
| `command` | `python -m erlang_loop.asgi` |
| `handlers` | Erlang funs for some paths |
| `workers` | `--workers`: processes that serve the same port |
| `worker` | the server of a loop of `py_asgi` |
| `mounted` | requests of another Erlang server: `py_asgi:handle/2` |

Connections, requests and responses are native: `native/py_nif/src/http`.
"""

from erlang_loop._native import DisconnectedError
from erlang_loop.asgi.config import Config
from erlang_loop.asgi.importing import AppImportError, import_app
from erlang_loop.asgi.lifespan import LifespanError
from erlang_loop.asgi.server import Server, serve

__all__ = [
    "AppImportError",
    "Config",
    "DisconnectedError",
    "LifespanError",
    "Server",
    "import_app",
    "serve",
]
