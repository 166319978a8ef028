"""A small HTTP server: bin/erlang-loop examples/http_server.py 8080, then `curl localhost:8080`.

Without a port it asks itself three questions and ends. Ctrl-C ends it in order. It needs `h11`.
"""

import signal
import sys
import time
import urllib.request

from erlang_loop.callbacks import CallbackLoop
from erlang_loop.http import HttpServer, Limits

loop = CallbackLoop(pool_size=4)
begun = time.monotonic()


def handle(request, response):
    if request.path == "/":
        response.send(f"{request.method}, and {len(request.body)} bytes\n")
    elif request.path == "/sum":
        # Work for the pool: the loop goes on with other clients.
        loop.run_in_pool(sum, range(100_000), callback=lambda n: response.send(f"{n}\n"))
    elif request.path == "/ticks":
        ticks(response, 3)
    else:
        response.send("not here\n", status=404)


def ticks(response, left):
    """A line every 10 ms, in chunks, until the client is gone."""
    if left and not response.gone:
        response.write(f"{left}\n")
        loop.call_later(0.01, ticks, response, left - 1)
    else:
        response.end()


def ask(address):
    base = f"http://{address[0]}:{address[1]}"
    return [urllib.request.urlopen(base + page).read() for page in ("/", "/sum", "/ticks")]


def answered(pages):
    for page in pages:
        print(page)
    loop.stop()


port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
server = HttpServer(loop, handle, "127.0.0.1", port, limits=Limits(body_size=100_000))
if port:
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    loop.add_signal_handler(signal.SIGINT, loop.stop)
else:
    loop.run_in_pool(ask, server.address, callback=answered)
loop.run_forever()
loop.shutdown(patience=10)
