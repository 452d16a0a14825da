"""Lets go of what is coordinated elsewhere from now on, in turns: there may be very much of it.

Nobody finds it any more, so nobody minds how long it takes: but for who waits in it, and for
whoever has to know it gone before he loads the same again.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from drumlin.turns import Work


class Unloading:
    """What was coordinated here, and is not forgotten yet."""

    def __init__(self) -> None:
        self._left: deque[Work[None]] = deque()

    def begin(self, forgetting: Work[None]) -> None:
        """This is to be done. None of it is yet."""
        self._left.append(forgetting)

    def go_on(self) -> Work[None]:
        """Until nothing is left. Several may do so: each goes on where another has given way."""
        while self._left:
            first = self._left[0]
            for _ in first:
                yield
            if self._left and self._left[0] is first:
                self._left.popleft()


def forget(*collections: list[Any] | dict[Any, Any]) -> Work[None]:
    """Empty them one by one, as each of what is in them may be large."""
    for each in collections:
        while each:
            if isinstance(each, list):
                each.pop()
            else:
                each.popitem()
            yield
