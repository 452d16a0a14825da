"""Thread pools whose threads are started before they are needed.

Starting a thread blocks until it runs. On a busy machine that may take tens of milliseconds, in
which an event loop would stall: a loop that serves requests must never start a thread. And while
memory is short, threads cannot be started at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """A pool that has started all of its threads. Create it before the loop serves requests.

    A StopIteration raised by a function becomes a RuntimeError.

    Raises:
        RuntimeError: the system does not allow more threads.
    """
    pool = _Pool(count, name)
    # A pool starts a thread only if none is free, so the barrier keeps all busy until all run.
    all_there = threading.Barrier(count)
    try:
        for _ in range(count):
            pool.submit(all_there.wait)
    except BaseException:
        all_there.abort()  # else the started threads would wait for ever, and so would the process
        pool.shutdown(wait=False)
        raise
    return pool


class _Pool(ThreadPoolExecutor):
    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(_call, function, args, kwargs)


def _call(function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        # asyncio does not set StopIteration on a future, so the waiter would wait for ever.
        raise RuntimeError("a generator's StopIteration came out of a thread's work") from error
