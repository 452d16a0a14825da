"""Thread pools whose threads are started before they are needed.

Starting a thread blocks until it runs. On a busy machine that may take tens of milliseconds, during
which an event loop stands still: a loop that serves requests must never start a thread. And while
memory is short, no thread can be started at all.
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
        RuntimeError: the system allows no more threads.
    """
    pool = _Pool(count, name)
    # A pool starts a thread only if none is free: the barrier keeps all busy until all run.
    all_there = threading.Barrier(count)
    try:
        for _ in range(count):
            pool.submit(all_there.wait)
    except BaseException:
        all_there.abort()  # else the started threads would wait forever, and the process for them
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
        # asyncio sets no StopIteration on a future: its waiter would wait forever.
        raise RuntimeError("a generator's StopIteration came out of a thread's work") from error
