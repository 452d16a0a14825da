"""A request that has been started: its answer, now or later; and what starts frequent ones."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True)
class Dispatched:
    """`parts` is None for a request that is not answered (produce with acks=0)."""

    parts: list[Any] | None = None
    waiting: Awaitable[list[Any] | None] | None = None
    lets_pass: bool = False  # the next request may start while this one waits


class Lane(Protocol):
    """Drives a connection's requests of one kind, which it recognises by their bytes."""

    @property
    def kind(self) -> bytes: ...

    def recognises(self, frame: memoryview) -> bool:
        """Whether a request is of this kind, to be driven here or not."""

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end; None if it is to go the ordinary way."""
