"""A moment at which all brokers of a machine stand still, and each looks at its own state.

Each broker connects in a turn of its event loop, and waits in that turn until all others do the
same. What they see then fits together: nothing that one has done after it looked is in what
another one sees.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeVar

from drumlin.broker.http.admin_socket import bind_private, short_path

T = TypeVar("T")
FILE_NAME: Final = "drumlin-standstill.sock"
#: How long the first broker has to begin, which reads files before.
_FIRST_S: Final = 60.0
#: How long all of them stand still at most: clients wait meanwhile.
_ALL_S: Final = 0.4
#: A broker that has waited longer knows that the others do not wait for it.
_PATIENCE_S: Final = 0.5
_GO: Final = b"g"


def listen_for_brokers(directory: Path, brokers: int) -> socket.socket:
    """A socket at which they stand still.

    Raises:
        OSError: it cannot be made.
    """
    sock = bind_private(directory / FILE_NAME)
    sock.listen(brokers)
    return sock


def at_standstill(sock: socket.socket, brokers: int, look: Callable[[], T]) -> T | None:
    """Call `look` while all brokers stand still, then let them go. Blocks.

    None if they did not come together in time.
    """
    with ExitStack() as waiting:
        came: list[socket.socket] = []
        deadline = time.monotonic() + _FIRST_S
        try:
            while len(came) < brokers:
                sock.settimeout(max(deadline - time.monotonic(), 0.001))
                came.append(waiting.enter_context(sock.accept()[0]))
                deadline = min(deadline, time.monotonic() + _ALL_S) if len(came) == 1 else deadline
        except TimeoutError:
            return None
        seen = look()
        for each in came:
            each.settimeout(_PATIENCE_S)
            each.sendall(_GO)
        return seen


def stand_still(directory: Path) -> bool:
    """Wait until all brokers do so. Blocks the loop, shortly; whether all of them did."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_PATIENCE_S)
            with short_path(directory / FILE_NAME) as short:
                sock.connect(short)
            return sock.recv(1) == _GO
    except OSError:
        return False
