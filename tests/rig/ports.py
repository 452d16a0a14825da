"""Free ports on the loopback interface, for servers that are started a moment later.

They are below those that the system gives to outgoing connections: the tests open so many of
these that one of them would take a port between the choice and the server's start.
"""

from __future__ import annotations

import os
import random
import socket

_FIRST, _END = 10_000, 32_000

#: Where this process looks next. Two that run at the same time begin far from each other.
_next = random.Random(os.getpid()).randrange(_FIRST, _END)


def free_ports(count: int) -> list[int]:
    """Free ports. A port is not given again before all others were."""
    global _next
    found: list[int] = []
    for _ in range(_END - _FIRST):
        port, _next = _next, _next + 1 if _next + 1 < _END else _FIRST
        if _is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports from {_FIRST} to {_END - 1}")


def adjacent_free_ports(count: int) -> int:
    """The first of so many free ports that follow each other."""
    found = free_ports(count)
    while found[-1] - found[0] != count - 1:
        found = [*found[1:], *free_ports(1)]
    return found[0]


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        # As servers do: what an ended one has left in TIME_WAIT does not count.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
