"""Frees state that is coordinated elsewhere from now on, in turns: there may be very much.

It cannot be found any more, so it may take long: but for requests that wait in it, and for a
caller that must know it gone before the same is loaded again.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from drumlin.turns import Work


class DroppedState:
    """State that was coordinated here and is not freed yet."""

    def __init__(self) -> None:
        self._left: deque[Work[None]] = deque()

    def begin(self, forgetting: Work[None]) -> None:
        """Add work to be done; none of it is done yet."""
        self._left.append(forgetting)

    def go_on(self) -> Work[None]:
        """Work until nothing is left. Several tasks may: each continues where another yielded."""
        while self._left:
            first = self._left[0]
            for _ in first:
                yield
            if self._left and self._left[0] is first:
                self._left.popleft()


def forget(*collections: list[Any] | dict[Any, Any]) -> Work[None]:
    """Empty the containers item by item, as each item may be large."""
    for each in collections:
        while each:
            if isinstance(each, list):
                each.pop()
            else:
                each.popitem()
            yield
