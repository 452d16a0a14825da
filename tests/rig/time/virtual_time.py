"""An event loop whose time passes only while there is nothing to do, and then at once.

Time-outs of minutes are over in no time, in the order in which they would be. Where nothing would
ever happen again although a task waits, it says so.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("nothing will ever happen again, and a task waits for it")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`. Pauses with a jitter are the same in each run, as times are."""
    random.seed(0)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
