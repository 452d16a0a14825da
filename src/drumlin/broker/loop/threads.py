"""The threads for a broker's blocking or long work, separate for each kind.

A slow disk must not take threads from computations, nor consumers of old data from the fsyncs that
producers wait for. So each kind of work has its own threads, all started at the beginning. Work
must not wait for other work of the same kind, as all threads could end up waiting.

A thread returns a value: only the event loop changes the broker's state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from drumlin.broker.loop.garbage import making_many
from drumlin.ready_threads import ready_threads

T = TypeVar("T")

_READING: Final = 16
#: More threads would only contend for the GIL, although checksums and codecs release it.
_COMPUTING: Final = 4
_SYNCING: Final = 16
_ADMINISTERING: Final = 4
#: One look at a time: each may take the interpreter's lock for long.
_LOOKING: Final = 1


class Threads:
    """Calls functions in threads. All methods may be awaited from any task on the loop."""

    def __init__(self) -> None:
        self._reading = ready_threads(_READING, "reading")
        self._computing = ready_threads(_COMPUTING, "computing")
        self._syncing = ready_threads(_SYNCING, "syncing")
        self._administering = ready_threads(_ADMINISTERING, "administering")
        self._looking = ready_threads(_LOOKING, "looking")

    async def reading(self, function: Callable[..., T], *args: Any) -> T:
        """Reads that a client waits for and that may need the disk: fetches, searches by time."""
        return await _run(self._reading, function, *args)

    async def computing(self, function: Callable[..., T], *args: Any) -> T:
        """Computations that take more than a turn of the loop and wait for nothing: codecs."""
        return await _run(self._computing, function, *args)

    async def making(self, function: Callable[..., T], *args: Any) -> T:
        """Like `computing`, for work that makes or frees thousands of objects, such as messages."""
        return await _run(self._computing, _make, function, *args)

    async def syncing(self, function: Callable[..., T], *args: Any) -> T:
        """An fsync of a log."""
        return await _run(self._syncing, function, *args)

    async def administering(self, function: Callable[..., T], *args: Any) -> T:
        """Work on folders and files: creation and removal of logs, checkpoints, retention."""
        return await _run(self._administering, function, *args)

    async def looking(self, function: Callable[..., T], *args: Any) -> T:
        """What is gathered for the operator, who looks at it just when disks do not answer."""
        return await _run(self._looking, function, *args)

    def make_later(self, function: Callable[..., object], *args: Any) -> None:
        """Like `making`, for work that is not awaited and may be dropped when the broker stops."""
        with contextlib.suppress(RuntimeError):  # it was closed
            self._computing.submit(_make, function, *args)

    def close(self) -> None:
        """Wait for the work in progress, and end the threads."""
        pools = self._reading, self._computing, self._syncing, self._administering, self._looking
        for pool in pools:
            pool.shutdown()


async def _run(pool: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, function, *args)


def _make(function: Callable[..., T], *args: Any) -> T:
    with making_many():
        return function(*args)
