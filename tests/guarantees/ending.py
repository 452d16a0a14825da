"""How the clients of a run end: within a time, and with what they complain of."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterable
from typing import Final, Protocol

#: How long a client may take to come to its end.
SETTLE_S: Final = 60.0


class Client(Protocol):
    """A thread that works until it is stopped."""

    failure: BaseException | None

    @property
    def name(self) -> str: ...
    @property
    def ident(self) -> int | None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


def joined(clients: Iterable[Client]) -> list[str]:
    """Stop them; what they complain of."""
    clients = list(clients)
    for each in clients:
        each.stop()
    deadline = time.monotonic() + SETTLE_S
    complaints = []
    for each in clients:
        each.join(max(0.0, deadline - time.monotonic()))
        if each.is_alive():
            frame = sys._current_frames()[each.ident or 0]
            where = "".join(traceback.format_stack(frame))
            complaints.append(f"{each.name} does not get through:\n{where}")
        elif each.failure is not None:
            complaints.append(f"{each.name}: {type(each.failure).__name__}: {each.failure}")
    return complaints
