"""A request that has been started: its answer, now or later; and what starts frequent ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol


class Postponed(Protocol):
    """An answer that somebody will bring, without a task that waits for it."""

    def start(self, deliver: Callable[[list[Any] | None], None]) -> None:
        """Have `deliver` called once, later, with the answer's parts.

        None instead of parts: it takes the ordinary way to answer, and that at once.
        """

    def cancel(self) -> None:
        """The answer is not wanted any more."""


@dataclass(slots=True)
class Dispatched:
    """`parts` is None for a request that is not answered (produce with acks=0)."""

    parts: list[Any] | None = None
    waiting: Awaitable[list[Any] | None] | None = None
    lets_pass: bool = False  # the next request may start while this one waits
    postponed: Postponed | None = None
    in_turns: bool = False  # what is awaited works all the time, and waits for nobody

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to come."""
        return self.waiting is None and self.postponed is None


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
