import socket

s = socket.socket()
s.connect(("127.0.0.1", 9000))

while True:
    msg = input(">> ").encode()
    s.send(msg)
    print(s.recv(4096).decode())
