"""A request that a lane has started: its answer, now or later."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from drumlin.broker.later import Later, Parts, when_done


@dataclass(slots=True)
class Dispatched:
    """`parts` is None for a request that is answered later."""

    parts: list[Any] | None = None
    waiting: Awaitable[list[Any] | None] | None = None
    lets_pass: bool = False  # the next request may start while this one waits

    @property
    def answer(self) -> Parts | Later | None:
        if self.waiting is None:
            return self.parts
        return when_done(self.waiting, lets_pass=self.lets_pass)


class Lane(Protocol):
    """Drives a connection's requests of one kind, which it recognises by their bytes."""

    @property
    def kind(self) -> bytes: ...

    def recognises(self, frame: memoryview) -> bool:
        """Whether a request is of this kind, to be driven here or not."""

    @property
    def is_over(self) -> bool:
        """It will never drive a request again."""

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end; None if it is to go the ordinary way."""
