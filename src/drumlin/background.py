"""The background tasks of one owner, from start to end.

No caller has to wait for such a task, so failures are logged here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Background:
    """The tasks of one owner.

    Args:
        ended(): the error for callers that still wait for an answer at `end`.
    """

    def __init__(self, ended: Callable[[], BaseException] = asyncio.CancelledError) -> None:
        self._ended = ended
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """The number of running tasks."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that runs until it is done, or until `end`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def answer_with(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Like `spawn`, but the caller may await the result or the error, which is not logged.

        After `end`, the error is the one from `ended`.
        """
        loop = asyncio.get_running_loop()
        task, answer = loop.create_task(work), loop.create_future()
        self._tasks.add(task)
        task.add_done_callback(partial(self._answered, answer))
        return answer

    def repeat(
        self, interval_ms: Callable[[], int], work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Repeat `work`; before each run, wait for the time returned by `interval_ms`."""
        self.spawn(_for_ever(interval_ms, work))

    async def settle(self) -> None:
        """Wait until no task is running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background task failed", exc_info=error)

    def _answered(self, answer: asyncio.Future[T], task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        error = self._ended() if task.cancelled() else task.exception()
        if answer.done():  # the caller has given up
            return
        if error is None:
            answer.set_result(task.result())
        else:
            answer.set_exception(error)


async def shielded(work: asyncio.Future[T]) -> T:
    """`asyncio.shield`, for work that continues when its callers are cancelled: if it fails later,
    asyncio does not warn that no caller has seen the error.
    """
    work.add_done_callback(look_at)
    return await asyncio.shield(work)


def look_at(done: asyncio.Future[Any]) -> None:
    """Retrieve the error of a future, as asyncio warns if no caller does."""
    if not done.cancelled():
        done.exception()


async def _for_ever(
    interval_ms: Callable[[], int], work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    while True:
        await asyncio.sleep(interval_ms() / 1000)
        try:
            await work()
        except Exception:  # noqa: BLE001  what fails once is tried again at its next turn
            _log.exception("work in the background failed; it is tried again")
