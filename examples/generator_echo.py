"""An echo server of generators: bin/erlang-loop examples/generator_echo.py [clients]"""

import socket
import sys

from erlang_loop.generators import GeneratorLoop, await_read, await_write, join, sleep


def echo(connection):
    with connection:
        while True:
            yield from await_read(connection)
            data = connection.recv(4096)
            if not data:
                return
            yield from await_write(connection)
            connection.sendall(data)


def serve(loop, server):
    while True:
        yield from await_read(server)
        connection, _ = server.accept()
        connection.setblocking(False)
        loop.create_task(echo(connection))


def client(address, number):
    with socket.create_connection(address) as sock:
        sock.setblocking(False)
        text = b"client %d" % number
        for _ in range(3):
            yield from await_write(sock)
            sock.sendall(text)
            yield from await_read(sock, timeout=30)
            assert sock.recv(100) == text
            yield from sleep(0.001)
    return number


def main(loop, count):
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        server.setblocking(False)
        serving = loop.create_task(serve(loop, server))
        address = server.getsockname()
        tasks = [loop.create_task(client(address, number)) for number in range(count)]
        served = 0
        for task in tasks:
            yield from join(task)
            served += 1
        serving.cancel()
        return served


with GeneratorLoop() as loop:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{loop.run_until_complete(main(loop, count))} clients were served")
