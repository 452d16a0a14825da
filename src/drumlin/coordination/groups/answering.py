"""Answers whoever waits in a group: of very many, some in a turn of the loop.

All who are answered in one turn are encoded for and sent to in the next one: a thousand members
whose rebalance is over would be a turn of tens of milliseconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from drumlin.coordination.groups.classic.messages import Answer

ANSWERS_PER_TURN: Final = 32


class Answering:
    """Between different members, answers have no order."""

    def __init__(self) -> None:
        self._left: deque[Answer] = deque()
        self._goes_on = False

    def give(self, answers: Iterable[Answer]) -> None:
        """All of them, now."""
        for each in answers:
            if not each.waiter.done():  # it may have given up
                each.waiter.set_result(each.answer)

    def give_in_turns(self, answers: Iterable[Answer]) -> None:
        self._left.extend(answers)
        if not self._goes_on:
            self._give_some()

    def finish(self) -> None:
        """Nobody is left waiting."""
        self.give(self._left)
        self._left.clear()

    def _give_some(self) -> None:
        left = self._left
        self.give([left.popleft() for _ in range(min(len(left), ANSWERS_PER_TURN))])
        self._goes_on = bool(left)
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._give_some)
