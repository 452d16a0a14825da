"""Whether other threads run while one computes: whether it lets go of the interpreter's lock."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable


def turns_beside(work: Callable[[], object], wanted: int, limit_s: float = 60.0) -> int:
    """How many turns this thread gets, up to `wanted`, while another one does nothing but `work`.

    The other one begins anew until there are as many, or the time is over: how long `work` takes,
    and what else the machine does, does not matter.
    """
    turns = 0
    ends_at = time.monotonic() + limit_s

    def keep_on() -> None:
        while turns < wanted and time.monotonic() < ends_at:
            work()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # no thread has to hand the lock over
    try:
        thread = threading.Thread(target=keep_on)
        thread.start()
        while thread.is_alive():
            turns += 1
            time.sleep(0.0001)
    finally:
        sys.setswitchinterval(interval)
    return turns
