"""How load generators connect: to a port as it is, or through TLS."""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Callable
from typing import TypeAlias

_TIMEOUT_S = 60.0
#: Gives a new connection.
Dial: TypeAlias = Callable[[], socket.socket]


def plain(port: int) -> Dial:
    return functools.partial(_connect, port)


def through_tls(port: int, context: ssl.SSLContext) -> Dial:
    """As a client does that knows the broker as `localhost`."""

    def dial() -> socket.socket:
        return context.wrap_socket(_connect(port), server_hostname="localhost")

    return dial


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
