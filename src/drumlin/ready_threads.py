"""Thread pools whose threads are started before they are needed.

Starting a thread blocks until it runs. On a busy machine that may take tens of milliseconds, in
which an event loop would stand still: so a loop that serves requests must never start a thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """A pool that has started all of its threads. Make it before the loop serves requests.

    Raises:
        RuntimeError: the system allows no more threads.
    """
    pool = ThreadPoolExecutor(count, name)
    # A pool starts a thread only if none is free: the barrier keeps all busy until all run.
    all_there = threading.Barrier(count)
    try:
        for _ in range(count):
            pool.submit(all_there.wait)
    except BaseException:
        all_there.abort()  # else the started threads would wait for ever, and the process for them
        pool.shutdown(wait=False)
        raise
    return pool
