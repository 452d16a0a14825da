"""An answer that may be given once what it tells of is confirmed: mostly that is at once."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


class Written(Generic[Answer]):
    """What was asked for is in the log, and in memory; awaiting it gives the answer.

    Whoever finds it confirmed may take the answer without waiting, and without a task to wait in.
    """

    __slots__ = ("_confirmed", "answer")

    def __init__(self, answer: Answer, confirmed: Awaitable[None] | None = None) -> None:
        """`confirmed` is done when all in-sync replicas have it; None: they have it now."""
        self.answer = answer
        self._confirmed = confirmed

    @property
    def is_confirmed(self) -> bool:
        return self._confirmed is None

    def __await__(self) -> Generator[Any, Any, Answer]:
        if self._confirmed is not None:
            yield from self._confirmed.__await__()
        return self.answer
