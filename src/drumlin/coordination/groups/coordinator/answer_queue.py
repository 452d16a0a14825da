"""Answers the waiting requests of groups: many answers take several turns of the loop.

Answers given in one turn are encoded and sent in the next. When the rebalance of a thousand members
ends, that next turn would take tens of milliseconds. Creating an answer also takes time, so each
answer is created in the turn in which it is given.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from drumlin.coordination.groups.every_kind.messages import Answer, Answers
from drumlin.turns import TURN_S

_log = logging.getLogger(__name__)

#: The maximum number of answers given immediately, in the turn in which they are decided.
ANSWERS_PER_TURN: Final = 32
#: The maximum in each later turn: fewer answers, as answered clients may send requests by then.
_ANSWERS_PER_LATER_TURN: Final = 16


class AnswerQueue:
    """A queue of answers; the order of answers to different requests is not defined."""

    def __init__(self) -> None:
        self._left: deque[Iterator[Answer | None]] = deque()
        self._given = 0  # since the last turn of the loop began
        self._is_scheduled = False
        self._has_none_left = asyncio.Event()
        self._has_none_left.set()

    def give(self, effect: Answer | Answers) -> None:
        """Give one or a few answers immediately, and many or slow answers in later turns."""
        if isinstance(effect, Answer):
            _give(effect)
            return
        self._given += effect.number
        at_most = ANSWERS_PER_TURN
        if self._given > at_most or not self._give_some(effect.answers, at_most, TURN_S):
            self._left.append(effect.answers)
            self._has_none_left.clear()
        self._go_on_later()

    async def finish(self) -> None:
        """Wait until all answers are given."""
        await self._has_none_left.wait()

    def _go_on_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        self._given = _ANSWERS_PER_LATER_TURN if self._left else 0
        try:
            if self._left and self._give_some(self._left[0], _ANSWERS_PER_LATER_TURN, TURN_S / 2):
                self._left.popleft()
        except Exception:  # noqa: BLE001  the others would wait for ever
            self._left.popleft()
            _log.exception("some requests that wait in a group cannot be answered")
        if self._left:
            self._go_on_later()
        else:
            self._has_none_left.set()

    @staticmethod
    def _give_some(answers: Iterator[Answer | None], at_most: int, turn_s: float) -> bool:
        """Give as many answers as fit into a turn; returns whether none are left."""
        given, ends_at = 0, time.monotonic() + turn_s
        for each in answers:
            if each is not None:
                given += 1
                _give(each)
            if given >= at_most or time.monotonic() >= ends_at:
                return False
        return True


def _give(answer: Answer) -> None:
    if not answer.waiter.done():  # the client may have given up
        answer.waiter.set_result(answer.answer)
