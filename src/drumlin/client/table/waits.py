"""Waits until a table reaches given offsets: any thread may wait, one thread reports progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from drumlin.client.topic_partition import TopicPartition

Ends = Mapping[TopicPartition, int]


class Waits:
    """The pending waits. Futures are completed in the reporting thread, or at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Ends, Future[None]]] = []
        self._reached: dict[TopicPartition, int] = {}
        self._error: BaseException | None = None

    def reached(self) -> dict[TopicPartition, int]:
        """The end offsets up to which the table is exact."""
        with self._lock:
            return dict(self._reached)

    def wait(self, ends: Ends) -> Future[None]:
        """A future that is done when the table has reached these end offsets."""
        future: Future[None] = Future()
        with self._lock:
            if self._error is None and not self._is_past(ends):
                self._waiting.append((ends, future))
                return future
            error = self._error
        _finish(future, error)
        return future

    def forget(self, future: Future[None]) -> None:
        """Stop waiting for a future."""
        with self._lock:
            self._waiting = [each for each in self._waiting if each[1] is not future]

    def tell(self, reached: Ends) -> None:
        """Report that the table is exact up to these end offsets."""
        with self._lock:
            self._reached.update(reached)
        self._settle(lambda ends: self._is_past(ends), None)

    def restart(self, reached: Ends) -> None:
        """Report that the table is exact only up to these end offsets: earlier reports are void."""
        with self._lock:
            self._reached = dict(reached)

    def fail(self, error: BaseException) -> None:
        """Fail all pending waits and all later ones."""
        with self._lock:
            self._error = error
        self._settle(lambda _: True, error)

    def _is_past(self, ends: Ends) -> bool:
        return all(self._reached.get(place, -1) >= end for place, end in ends.items())

    def _settle(self, is_due: Callable[[Ends], bool], error: BaseException | None) -> None:
        with self._lock:
            due = [each for each in self._waiting if is_due(each[0])]
            if due:
                self._waiting = [each for each in self._waiting if each not in due]
        for _, future in due:
            _finish(future, error)


def _finish(future: Future[None], error: BaseException | None) -> None:
    if future.set_running_or_notify_cancel():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
