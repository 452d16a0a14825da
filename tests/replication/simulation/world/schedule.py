"""Simulated time: what happens when, in an order that the seed alone decides.

Owns the clock, the queue of events, the random numbers of a run and its trace. Knows nothing of
what is simulated, and never looks at the real time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

Action = Callable[[], None]


class Violation(AssertionError):
    """A promise was broken."""


class Crash(Violation):
    """Code has failed with an error that nobody expects: there is no telling what it would do."""


class Schedule:
    """The queue of events of one run."""

    def __init__(self, seed: str, *, is_traced: bool = False) -> None:
        self.now_ms = 0
        self.random = random.Random(seed)
        self.trace: list[str] = []
        self.steps = 0
        self.is_over = False
        self._is_traced = is_traced
        self._queue: list[tuple[int, int, Action]] = []
        self._number = 0
        self._violation: Violation | None = None
        #: What was begun, and may be under way for ever: as its process has ended.
        self.begun: list[Coroutine[Any, Any, Any]] = []

    def at(self, time_ms: int, action: Action) -> None:
        self._number += 1
        if time_ms < self.now_ms:
            time_ms = self.now_ms
        heapq.heappush(self._queue, (time_ms, self._number, action))

    def after(self, delay_ms: int, action: Action) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run(self, until_ms: int) -> None:
        """Let events happen, in the order of their times, until `is_over`, or that time."""
        queue, pop = self._queue, heapq.heappop
        while not self.is_over and queue and queue[0][0] <= until_ms:
            self.now_ms, _, action = pop(queue)
            self.steps += 1
            action()
            if self._violation is not None:
                raise self._violation

    def close(self) -> None:
        """Nothing happens any more."""
        self._queue.clear()
        for coroutine in self.begun:
            with suppress(RuntimeError):  # it waits while it is closed
                coroutine.close()
        self.begun.clear()

    def break_off(self, violation: Violation) -> None:
        """End the run at once, wherever this was noticed: a task would keep it to itself."""
        self._violation = self._violation or violation

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def delay_ms(self, usual_ms: int, rarely_ms: int) -> int:
        """Mostly short, now and then long."""
        number = self.random.random()
        if number < 0.05:
            return int(rarely_ms * number * 20)
        return int(usual_ms * (number * 0.75 + 0.25)) + 1

    def note(self, text: str, *values: object) -> None:
        """A line of the trace; it is made up only where somebody is to read it."""
        if self._is_traced:
            self.trace.append(f"{self.now_ms:6d} " + text.format(*values))
