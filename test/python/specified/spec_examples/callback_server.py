import socket
from erlang_loop.callbacks import EventLoop

loop = EventLoop()

def handle_client(sock):
    try:
        data = sock.recv(4096)
        if not data:
            loop.remove_fd(sock)
            sock.close()
            return
        sock.sendall(data)
    except BlockingIOError:
        pass

def accept_connection(server_sock):
    conn, _ = server_sock.accept()
    conn.setblocking(False)
    loop.add_reader(conn, handle_client)

def start_server():
    server = socket.socket()
    server.setblocking(False)
    server.bind(("0.0.0.0", 9000))
    server.listen()

    loop.add_reader(server, accept_connection)

start_server()
loop.run_forever()
