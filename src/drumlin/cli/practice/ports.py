"""Ports of the loopback interface: checks whether one is free, and reserves one."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"


def reserve(port: int) -> socket.socket | None:
    """A socket that keeps a port for a server that is started a moment later; 0 is any port.

    The socket never listens, so a server, which sets SO_REUSEADDR too, can listen on the same port.
    But the system does not give the port to a process that asks for any port. None if it is taken.
    """
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except OSError:
        sock.close()
        return None
    return sock


def is_free(port: int) -> bool:
    """Whether a server could listen on the port."""
    kept = reserve(port)
    if kept is None:
        return False
    kept.close()
    return True
