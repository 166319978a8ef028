"""From sockets to transports: methods of the loop class that create connections.

connecting.py          create_connection and sock_connect
datagram_endpoints.py  create_datagram_endpoint
transports.py          the classes of native transports, and the methods that create them
tls.py                 TLS on top of a native transport
socket_methods.py      sock_recv, sock_sendall and the like
own_sockets.py         sockets whose class overrides reading or writing
"""
