"""Answers of coordinators, given now or later; mostly now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Pending(Protocol[Answer_co]):
    """An answer to wait for, unless it is there; an `asyncio.Future` is one.

    A caller that finds it done may take the result without awaiting, and without a task.
    """

    def done(self) -> bool: ...
    def result(self) -> Answer_co:
        """Only if it is done."""

    def __await__(self) -> Generator[Any, Any, Answer_co]: ...


class Written(Generic[Answer]):
    """The answer to what is in the log, and in memory: it may be given once that is confirmed."""

    __slots__ = ("_answer", "_confirmed")

    def __init__(
        self, answer: Answer, confirmed: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`confirmed()` ends when all in-sync replicas have it; None: they have it now."""
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
