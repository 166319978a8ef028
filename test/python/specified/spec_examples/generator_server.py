import socket
from erlang_loop.generators import EventLoop, await_read, await_write, sleep

def client_handler(conn):
    while True:
        yield from await_read(conn)
        data = conn.recv(4096)
        if not data:
            conn.close()
            return

        yield from await_write(conn)
        conn.sendall(data)

def server(loop):
    s = socket.socket()
    s.setblocking(False)
    s.bind(("0.0.0.0", 9000))
    s.listen()

    while True:
        yield from await_read(s)
        conn, _ = s.accept()
        conn.setblocking(False)
        loop.create_task(client_handler(conn))

loop = EventLoop()
loop.create_task(server(loop))
loop.run_forever()
