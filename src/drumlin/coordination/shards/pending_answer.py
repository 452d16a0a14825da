"""Answers of coordinators, usually available at once, sometimes later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Pending(Protocol[Answer_co]):
    """An answer that is or will be available; an `asyncio.Future` is one.

    If it is done, the caller may use the result at once, without awaiting or a task.
    """

    def done(self) -> bool: ...
    def result(self) -> Answer_co:
        """The answer; call this only if it is done."""

    def __await__(self) -> Generator[Any, Any, Answer_co]: ...


class Written(Generic[Answer]):
    """An answer whose records are in the log and applied: it is done once they are confirmed."""

    __slots__ = ("_answer", "_confirmed")

    def __init__(
        self, answer: Answer, confirmed: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`confirmed()` ends when all in-sync replicas have the records; None if they have them
        already.
        """
        self._answer = answer
        self._confirmed = confirmed

    def done(self) -> bool:
        return self._confirmed is None

    def result(self) -> Answer:
        assert self._confirmed is None
        return self._answer

    def __await__(self) -> Generator[Any, Any, Answer]:
        if self._confirmed is not None:
            yield from self._confirmed().__await__()
        return self._answer
