"""The confirmations of one produce request: in-sync replicas, and fsyncs that are due.

The last confirmation settles the answer in the same turn of the loop, without a task. Replicas
confirm in the middle of a change of their partition, so `Wakeups` makes the answer right after the
change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from drumlin.broker.loop.later import Later, LaterParts, Parts
from drumlin.broker.parts.parts import BrokerData
from drumlin.replication.partition import Partition
from drumlin.wire.error_codes import ErrorCode, KafkaError

Answer = Callable[[dict[int, KafkaError]], "Parts | LaterParts | None"]


class Confirming:
    """The confirmations of appended batches, by the index of their partition in the request."""

    __slots__ = (
        "_answer",
        "_broker",
        "_failures",
        "_later",
        "_timer",
        "_unflushed",
        "_unreplicated",
    )

    def __init__(self, broker: BrokerData) -> None:
        self._broker = broker
        self._unreplicated: set[int] = set()
        self._unflushed: set[int] = set()
        self._failures: dict[int, KafkaError] = {}
        self._answer: Answer | None = None
        self._later: LaterParts | None = None
        self._timer: asyncio.TimerHandle | None = None

    def replicate(self, place: int, replicas: Partition) -> None:
        """Wait for the in-sync replicas to have the records appended so far."""
        self._unreplicated.add(place)
        replicas.when_replicated(partial(self._replicated, place))

    def flush(self, place: int, partition: Partition) -> None:
        """Wait until the records appended so far are on disk."""
        self._unflushed.add(place)
        flushed = self._broker.flushes.flush(partition)
        flushed.add_done_callback(partial(self._flushed, place))

    def answered(self, timeout_s: float, answer: Answer) -> Parts | LaterParts | None:
        """The result of `answer`, given the failures, once every batch is confirmed or has failed.

        `timeout_s` limits the wait for replicas, not that for the disk.
        """
        if not (self._unreplicated or self._unflushed):
            return answer(self._failures)
        self._answer = answer
        self._later = Later(lets_pass=True, give_up=self._give_up)
        if self._unreplicated:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(timeout_s, self._time_out)
        return self._later

    def _replicated(self, place: int, error: KafkaError | None) -> None:
        if place not in self._unreplicated:
            return  # the timeout has expired
        self._unreplicated.remove(place)
        if error is not None:
            self._failures.setdefault(place, error)
        self._look()

    def _flushed(self, place: int, flushed: asyncio.Future[None]) -> None:
        self._unflushed.remove(place)
        error = None if flushed.cancelled() else flushed.exception()
        if isinstance(error, KafkaError):
            self._failures[place] = error
        elif error is not None:  # after any error, the batch may not be on disk
            self._failures[place] = KafkaError(ErrorCode.kafka_storage_error, str(error))
        self._look()

    def _time_out(self) -> None:
        for place in self._unreplicated:
            self._failures[place] = KafkaError(ErrorCode.request_timed_out)
        self._unreplicated.clear()
        self._look()

    def _look(self) -> None:
        """Answer soon, if all confirmations have come; not now, as this may be in the middle of a
        change.
        """
        if not self._unreplicated and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._answer is not None and not (self._unreplicated or self._unflushed):
            self._broker.wakeups.add(self._settle)

    def _settle(self) -> None:
        answer, self._answer = self._answer, None
        later, self._later = self._later, None
        if answer is None or later is None:
            return  # the peer has disconnected meanwhile
        try:
            parts = answer(self._failures)
        except Exception as error:  # noqa: BLE001  the connection handles it
            later.settle(None, error)
        else:
            if isinstance(parts, Later):
                parts.when_settled(later.settled_by)
            else:
                later.settle(parts)

    def _give_up(self) -> None:
        """Drop everything: the peer has disconnected."""
        self._answer = self._later = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
