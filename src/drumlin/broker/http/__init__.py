"""What a broker tells, and does, over HTTP: metrics for whoever watches, a socket for its operator.

`message.py` is the protocol, `server.py` the connections; `admin_socket.py` is the address that
only this machine's operator reaches. Which paths there are is decided in `broker/endpoints.py`.
"""
