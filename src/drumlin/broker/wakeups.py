"""Requests that waited for what has just been appended, between being woken and being answered.

They are answered after the append that woke them, never in the midst of it, and before its
producer is: the reader of a new record waits for nobody's acknowledgement. Where there are more
of them than fit into a turn of the loop, the rest comes in the next ones.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from drumlin.turns import first_turn_ends_at

_log = logging.getLogger(__name__)


class Wakeups:
    """What is to be called once the current change is made."""

    __slots__ = ("_is_finishing", "_woken")

    def __init__(self) -> None:
        self._woken: deque[Callable[[], None]] = deque()
        self._is_finishing = False

    def add(self, finish: Callable[[], None]) -> None:
        """Have `finish` called soon; by `finish` or, if nobody calls that, by the loop."""
        if not self._woken:
            asyncio.get_running_loop().call_soon(self.finish)
        self._woken.append(finish)

    def finish(self) -> None:
        """Call all who were added. They may append, and so wake others, who come in turn.

        Where there are very many, those who have no place in this turn of the loop have the next.

        Who calls this is none of them: what goes wrong with one is nothing to it, nor to the rest.
        """
        if not self._woken or self._is_finishing:
            return
        self._is_finishing = True
        ends_at = first_turn_ends_at(asyncio.get_running_loop())
        try:
            while self._woken:
                finish = self._woken.popleft()
                try:
                    finish()
                except Exception:  # noqa: BLE001  the others would wait for ever
                    _log.exception("a request that waited could not be answered")
                if self._woken and time.monotonic() >= ends_at:
                    asyncio.get_running_loop().call_soon(self.finish)
                    break
        finally:
            self._is_finishing = False
