"""Answers the requests that wait in a group: if they are very many, some in a turn of the loop.

Answers given in one turn are encoded and sent in the next: a thousand members whose rebalance is
over would make a turn of tens of milliseconds. To make an answer takes time, too, and is done when
its turn comes.
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

#: So many are few.
ANSWERS_PER_TURN: Final = 32
#: A client that is answered may well send another request by the next turn.
_OF_MANY: Final = 16


class AnswerQueue:
    """Between different requests, answers have no order."""

    def __init__(self) -> None:
        self._left: deque[Iterator[Answer | None]] = deque()
        self._given = 0  # together with others, since the loop's last turn
        self._goes_on = False
        self._has_none_left = asyncio.Event()
        self._has_none_left.set()

    def give(self, effect: Answer | Answers) -> None:
        """Give one answer or few at once, unless it takes long; many in later turns."""
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
        """Wait until no answer is due any more."""
        await self._has_none_left.wait()

    def _go_on_later(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        self._given = _OF_MANY if self._left else 0
        try:
            if self._left and self._give_some(self._left[0], _OF_MANY, TURN_S / 2):
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
        """Give a turn's worth of answers; whether these were all."""
        given, ends_at = 0, time.monotonic() + turn_s
        for each in answers:
            if each is not None:
                given += 1
                _give(each)
            if given >= at_most or time.monotonic() >= ends_at:
                return False
        return True


def _give(answer: Answer) -> None:
    if not answer.waiter.done():  # it may have given up
        answer.waiter.set_result(answer.answer)
