"""Pools of threads that are there before anybody needs them.

Who starts a thread waits until it runs. On a machine that is busy that may take tens of
milliseconds, in which an event loop would serve nobody: so no loop that serves may start one.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """A pool that has started all of its threads. To be made before a loop serves anybody.

    Raises:
        RuntimeError: there may be no more threads.
    """
    pool = ThreadPoolExecutor(count, name)
    # A pool starts a thread where none is free: so none is, until all are there.
    all_there = threading.Barrier(count)
    try:
        for _ in range(count):
            pool.submit(all_there.wait)
    except BaseException:
        all_there.abort()  # those that are there would wait for ever, and the process for them
        pool.shutdown(wait=False)
        raise
    return pool
