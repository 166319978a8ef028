"""An echo server and three clients, all callbacks: bin/erlang-loop examples/callback_echo.py

One of the clients is a bad one, which ends its own connection only.
"""

import logging
import socket
import struct

from erlang_loop.callbacks import CallbackLoop

loop = CallbackLoop()
waiting = {"one", "two"}


def accept(server):
    connection, _ = server.accept()
    connection.setblocking(False)
    loop.add_reader(connection, echo)


def echo(connection):
    data = connection.recv(4096)  # Raises for the bad client: the loop closes the connection.
    if data:
        connection.sendall(data)
    else:
        loop.remove_fd(connection)
        connection.close()


def start_client(address, name):
    sock = socket.create_connection(address)
    sock.setblocking(False)
    sock.send(name.encode())
    loop.add_reader(sock, answered)


def answered(sock):
    name = sock.recv(100).decode()
    print(f"{name} got its reply")
    loop.remove_fd(sock)
    sock.close()
    waiting.discard(name)
    if not waiting:
        loop.stop()


def start_bad_client(address):
    sock = socket.create_connection(address)
    sock.send(b"goodbye")
    # Closed with a reset, as by a crash.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def failed(_loop, context):
    print(f"a client ended with {type(context['exception']).__name__}")


logging.basicConfig()
loop.set_exception_handler(failed)
loop.set_blocking_threshold(0.5)
server = socket.create_server(("127.0.0.1", 0))
server.setblocking(False)
loop.add_reader(server, accept)
start_bad_client(server.getsockname())
loop.call_later(0.01, start_client, server.getsockname(), "one")
loop.call_later(0.02, start_client, server.getsockname(), "two")
loop.run_forever()
loop.shutdown()
