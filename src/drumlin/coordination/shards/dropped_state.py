"""Frees state that is coordinated elsewhere from now on, in turns: there may be very much.

It cannot be found any more, so it may take long: but for requests that wait in it, and for a
caller that must know it gone before the same is loaded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

from drumlin.turns import give_way

_log = logging.getLogger(__name__)


class DroppedState:
    """State that was coordinated here and is not freed yet."""

    def __init__(self) -> None:
        self._left: deque[Coroutine[Any, Any, None]] = deque()
        self._working: asyncio.Task[None] | None = None

    def begin(self, forgetting: Coroutine[Any, Any, None]) -> None:
        """Add work to be done; none of it is done yet."""
        self._left.append(forgetting)

    async def go_on(self) -> None:
        """Wait until nothing is left, whoever else waits for it."""
        while self._left or self._working is not None:
            if self._working is None:
                self._working = asyncio.get_running_loop().create_task(self._work())
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        try:
            while self._left:
                try:
                    await self._left.popleft()
                except Exception:  # noqa: BLE001  what waits for it must go on
                    _log.exception("state that is not coordinated here any more was not freed")
        finally:
            self._working = None


async def forget(*collections: list[Any] | dict[Any, Any]) -> None:
    """Empty the containers item by item, as each item may be large."""
    for each in collections:
        while each:
            if isinstance(each, list):
                each.pop()
            else:
                each.popitem()
            await give_way()
