"""HTTP endpoints of a broker: metrics for monitoring, and a socket for its operator.

`message.py` has the protocol, `server.py` the connections, `admin_socket.py` the socket that only
this machine's operator can reach, and `endpoints.py` the paths.
"""
