"""An event loop in a thread of its own, for synchronous callers.

Connections, retries and lingering batches run there while the caller decodes, encodes or does
something else. The thread is a daemon: a program that forgets to close its client can exit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from drumlin.client.errors import ClientError
from drumlin.client.loops.core_loop import CoreLoop

T = TypeVar("T")


class LoopThread(CoreLoop):
    """A thread with an event loop; it starts at once. `stop` ends it and cancels its coroutines."""

    def __init__(self, name: str) -> None:
        super().__init__(asyncio.new_event_loop())
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def may_wait(self) -> bool:
        return threading.current_thread() is not self._thread

    def check_may_wait(self) -> None:
        if not self.may_wait:
            raise ClientError(
                "a callback in the client's own thread must not wait for the client: "
                "it would wait for itself"
            )

    def stop(self) -> None:
        """Cancel the coroutines in the loop, and end the thread."""
        self.check_may_wait()
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def as_caller(self, function: Callable[..., object], *arguments: object) -> None:
        self._loop.run_in_executor(None, function, *arguments)

    # The caller's thread waits and computes: the loop goes on meanwhile.

    def condition(self) -> threading.Condition:
        return threading.Condition()

    def wait(self, futures: Sequence[Future[Any]]) -> None:
        wait(futures)

    def compute(self, function: Callable[[], T], size_bytes: int) -> T:  # noqa: ARG002
        return function()

    def iterate(self, items: Iterator[T], size_bytes: int) -> Iterator[T]:  # noqa: ARG002
        return items

    def in_order(
        self,
        work: Callable[[T], None],
        size_of: Callable[[T], int],  # noqa: ARG002
    ) -> Callable[[T], None]:
        return work


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
