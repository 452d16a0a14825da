"""Thread pools whose threads are started before they are needed.

Starting a thread blocks until it runs. On a busy machine that may take tens of milliseconds, in
which an event loop would stand still: so a loop that serves requests must never start a thread.
And when memory is short for a moment, none can be started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def ready_threads(count: int, name: str) -> ThreadPoolExecutor:
    """A pool that has started all of its threads. Make it before the loop serves requests.

    A StopIteration that is raised in it comes out as a RuntimeError.

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
        all_there.abort()  # else the started threads would wait for ever, and the process for them
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
        # asyncio puts none into a future: whoever awaits it would wait for ever.
        raise RuntimeError("a generator's StopIteration came out of a thread's work") from error
