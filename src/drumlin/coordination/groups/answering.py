"""Answers whoever waits in a group: of very many, some in a turn of the loop.

All who are answered in one turn are encoded for and sent to in the next one: a thousand members
whose rebalance is over would be a turn of tens of milliseconds. To find out what they are told
takes its time, too, and is done as their turns come.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.coordination.groups.classic.messages import Answer, Answers
from drumlin.turns import TURN_S

_log = logging.getLogger(__name__)

ANSWERS_PER_TURN: Final = 32


class Answering:
    """Between different requests, answers have no order."""

    def __init__(self) -> None:
        self._left: deque[Iterator[Answer | None]] = deque()
        self._goes_on = False

    def give(self, answers: Iterable[Answer | Answers | None]) -> None:
        """All of them, now."""
        for each in answers:
            if isinstance(each, Answers):
                self.give(each.answers)
            elif each is not None and not each.waiter.done():  # it may have given up
                each.waiter.set_result(each.answer)

    def give_in_turns(self, answers: Answers) -> None:
        """All of them: few at once, unless it takes long; many have been a turn to decide on."""
        if answers.number > ANSWERS_PER_TURN or not self._give_some(answers.answers, TURN_S):
            self._left.append(answers.answers)
            self._go_on_later()

    def finish(self) -> None:
        """Nobody is left waiting."""
        while self._left:
            self.give(self._left.popleft())

    def _go_on_later(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        try:
            if self._left and self._give_some(self._left[0], TURN_S / 2):
                self._left.popleft()
        except Exception:  # noqa: BLE001  the others would wait for ever
            self._left.popleft()
            _log.exception("some who wait in a group cannot be answered")
        if self._left:
            self._go_on_later()

    def _give_some(self, answers: Iterator[Answer | None], turn_s: float) -> bool:
        """A turn's worth of them; whether these were all."""
        given, ends_at = 0, time.monotonic() + turn_s
        for each in answers:
            if each is not None:
                given += 1
                if not each.waiter.done():
                    each.waiter.set_result(each.answer)
            if given >= ANSWERS_PER_TURN or time.monotonic() >= ends_at:
                return False
        return True
