"""Waits for one socket, of any number: `select.select` fails from descriptor 1,024 on."""

from __future__ import annotations

import math
import select
import socket


def is_readable(connection: socket.socket | int, wait_s: float) -> bool:
    """Whether there is something to read, or the end, within `wait_s`."""
    return _is_ready(connection, select.POLLIN, wait_s)


def is_writable(connection: socket.socket | int, wait_s: float) -> bool:
    """Whether there is room to write, or an error, within `wait_s`."""
    return _is_ready(connection, select.POLLOUT, wait_s)


def _is_ready(connection: socket.socket | int, events: int, wait_s: float) -> bool:
    waiting = select.poll()
    waiting.register(connection, events)
    return bool(waiting.poll(math.ceil(wait_s * 1000)))
