"""Pools of threads that are there before anybody needs them.

Who starts a thread waits until it runs. On a machine that is busy that may take tens of
milliseconds, in which an event loop would serve nobody: so no loop that serves may start one.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """A pool that has started all of its threads. To be made before a loop serves anybody."""
    pool = ThreadPoolExecutor(count, name)
    # A pool starts a thread where none is free: so none is, until all are there.
    all_there = threading.Barrier(count)
    for _ in range(count):
        pool.submit(all_there.wait)
    return pool
