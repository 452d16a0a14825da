"""Work that gives way, done step by step: from one call of `give_way` to the next."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Generator
from typing import Any, Generic, Self, TypeVar

from drumlin import turns

T = TypeVar("T")


class Stepped(Generic[T]):
    """An iterator whose every step is one of the work's; it may wait for nothing else.

    The result of the work comes with the StopIteration that ends it.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.steps = 0  # so far
        self._work = work

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> None:
        line, ends_at, turn_s = turns._line, turns._turn.ends_at, turns.TURN_S
        turns._line, turns._turn.ends_at = lambda: _LINE, -math.inf  # type: ignore[assignment]
        turns.TURN_S = 0  # type: ignore[misc]
        try:
            assert self._work.send(None) in (_STEP, None), "it waits for something"
            self.steps += 1
        finally:
            turns._line, turns._turn.ends_at, turns.TURN_S = line, ends_at, turn_s  # type: ignore[misc]

    def to_end(self) -> T:
        """Do what is left; the result."""
        try:
            while True:
                next(self)
        except StopIteration as done:
            result: T = done.value
            return result

    def count(self) -> int:
        """Do what is left; in how many steps."""
        return sum(1 for _ in self)

    def close(self) -> None:
        self._work.close()


class _Line:
    """Nobody waits in it: each step is the next one's turn."""

    loop = None

    def wait(self) -> Self:
        return self

    def __await__(self) -> Generator[Any, Any, None]:
        yield _STEP


_STEP = object()
_LINE = _Line()
