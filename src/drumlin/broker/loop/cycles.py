"""Periodic background work of a broker.

A failure is logged and the work repeated soon: usually a resource was short for a moment. A failure
never ends the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

_log = logging.getLogger(__name__)

#: Pause after a failure; shorter if the interval is.
_AGAIN_S: Final = 5.0

Work = Callable[[], Awaitable[None] | None]


class Cycles:
    """Periodic work on the event loop."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def every(self, interval_ms: int, name: str, work: Work, *, first_after_ms: int = -1) -> None:
        """Do `work` every `interval_ms`: first after one interval, or after `first_after_ms` if
        given.

        As in Apache Kafka, an interval of 0 means that the work is done once.
        """
        first_s = (interval_ms if first_after_ms < 0 else first_after_ms) / 1000
        task = asyncio.create_task(_repeat(first_s, interval_ms / 1000, name, work), name=name)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Cancel all periodic work and wait until it has ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


async def _repeat(first_s: float, interval_s: float, name: str, work: Work) -> None:
    await asyncio.sleep(first_s)
    while True:
        pause_s = interval_s
        try:
            pending = work()
            if pending is not None:
                await pending
        except Exception:  # noqa: BLE001  the failure of a chore must not end the broker
            pause_s = min(interval_s, _AGAIN_S) if interval_s > 0 else _AGAIN_S
            _log.exception("%s failed; trying again in %g s", name, pause_s)
        if pause_s <= 0:
            return
        await asyncio.sleep(pause_s)
