"""Requests that an append has woken and that are still to be answered.

These requests are answered after the append, never in the middle of it, and before the producer: a
consumer of a new record does not wait for acknowledgements. If there are more than fit into a turn
of the loop, the rest follow in the next turns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from drumlin.turns import begin_turn

_log = logging.getLogger(__name__)


class Wakeups:
    """The functions to call when the current change is complete."""

    __slots__ = ("_is_finishing", "_woken")

    def __init__(self) -> None:
        self._woken: deque[Callable[[], None]] = deque()
        self._is_finishing = False

    def add(self, finish: Callable[[], None]) -> None:
        """Have a function called soon: by `finish`, or else by the loop."""
        if not self._woken:
            asyncio.get_running_loop().call_soon(self.finish)
        self._woken.append(finish)

    def finish(self) -> None:
        """Call all added functions. They may append, and so add others, which are called as well.

        If there are very many, those that do not fit into this turn of the loop are called in the
        next. An error of one function affects neither the caller nor the other functions.
        """
        if not self._woken or self._is_finishing:
            return
        self._is_finishing = True
        ends_at = begin_turn(asyncio.get_running_loop())
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
