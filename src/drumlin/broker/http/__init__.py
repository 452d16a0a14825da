"""HTTP endpoints of a broker: metrics for monitoring, and a socket for its operator.

`message.py` is the protocol, `server.py` the connections; `admin_socket.py` is the address that
only this machine's operator reaches. The paths are in `broker/http/endpoints.py`.
"""
