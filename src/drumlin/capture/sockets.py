"""Waits for a socket with `poll`, as `select.select` fails for descriptors from 1,024 on."""

from __future__ import annotations

import math
import select
import socket


def is_readable(connection: socket.socket | int, wait_s: float) -> bool:
    """Whether the socket has data, or its end, within `wait_s`."""
    return any(ready(connection, wait_s, reads=True))


def is_writable(connection: socket.socket | int, wait_s: float) -> bool:
    """Whether the socket has room for data, or an error, within `wait_s`."""
    return any(ready(connection, wait_s, writes=True))


def ready(
    connection: socket.socket | int, wait_s: float, *, reads: bool = False, writes: bool = False
) -> tuple[bool, bool]:
    """Whether the socket is readable and writable, if requested; at an end or an error it is."""
    waiting = select.poll()
    wanted = (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0)
    waiting.register(connection, wanted)
    found = sum(events for _, events in waiting.poll(math.ceil(wait_s * 1000)))
    is_over = bool(found & ~(select.POLLIN | select.POLLOUT))
    return (
        reads and (is_over or bool(found & select.POLLIN)),
        writes and (is_over or bool(found & select.POLLOUT)),
    )
