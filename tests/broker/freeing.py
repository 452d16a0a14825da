"""How much of what a handler has gathered is freed in one step: that is in one turn."""

from __future__ import annotations

import gc
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from drumlin.turns import Work
from rig.stepped import Stepped


class Freeing:
    """Does work step by step, in place of `Turns`; `most`: blocks of memory that a step freed."""

    def __init__(self) -> None:
        self.most = 0
        self._before = sys.getallocatedblocks()

    def to_end(self, work: Work[Any] | Coroutine[Any, Any, Any]) -> Any:
        """What it returns. There must be no other reference to what it is given."""
        self._before = sys.getallocatedblocks()
        if isinstance(work, Coroutine):
            work = Stepped(work)
        while True:
            try:
                next(work)
            except StopIteration as done:
                self._look()
                return done.value
            self._look()

    async def run(self, work: Work[Any]) -> Any:
        return self.to_end(work)

    def whole(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What it returns; it awaits nothing but `run`."""
        try:
            coroutine.send(None)
        except StopIteration as done:
            answer = done.value
        else:
            raise AssertionError("it awaits something else")
        self._look()
        return answer

    def _look(self) -> None:
        now = sys.getallocatedblocks()
        self.most = max(self.most, self._before - now)
        self._before = now


@contextmanager
def no_collection() -> Generator[None]:
    """Whatever is freed is freed by its last owner."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
