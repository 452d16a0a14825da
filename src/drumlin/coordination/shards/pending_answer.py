"""Answers of coordinators: usually available immediately, sometimes later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Pending(Protocol[Answer_co]):
    """An answer that is or will be available; an `asyncio.Future` is one.

    If the answer is done, the caller may use the result immediately, without await or a task.
    """

    def done(self) -> bool: ...
    def result(self) -> Answer_co:
        """The answer; call this only if `done` returns True."""

    def __await__(self) -> Generator[Any, Any, Answer_co]: ...


class Written(Generic[Answer]):
    """An answer whose records are appended and applied; done once the records are confirmed."""

    __slots__ = ("_answer", "_confirmed")

    def __init__(
        self, answer: Answer, confirmed: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`confirmed()` ends when all in-sync replicas have the records; None if they already
        have.
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
