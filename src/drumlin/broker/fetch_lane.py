"""The fast lane of fetch requests: what a connection's consumer sent before, at another offset.

Only the ordinary case is driven here: a fetch of one partition, without a session, of records
that are in memory, or of those that come next. Whatever is different is left to
`handlers/fetch.py`, which decides it from the start; a fetch changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.broker.dispatched import Dispatched
from drumlin.replication.waiting import Waiter
from drumlin.wire.errors import KafkaError
from drumlin.wire.fetch_template import RequestTemplate, ResponseTemplate
from drumlin.wire.frame_answers import correlation_id_of

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.broker.wakeups import Wakeups
    from drumlin.replication.partition import Partition
    from drumlin.replication.waiting import WaitingRoom

_log = logging.getLogger(__name__)
_READ_COMMITTED: Final = 1


class Limits(NamedTuple):
    """What the requests of a lane have in common, beside the partition."""

    min_bytes: int
    max_bytes: int
    isolation_level: int
    current_leader_epoch: int
    max_wait_s: float


class FetchLane:
    """Requests of one connection to one partition."""

    __slots__ = ("_broker", "_limits", "_partition", "_request", "_response")

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        limits: Limits,
        request: RequestTemplate,
        response: ResponseTemplate,
    ) -> None:
        self._broker = broker
        self._partition = partition
        self._limits = limits
        self._request = request
        self._response = response

    @property
    def kind(self) -> bytes:
        """What tells this lane's requests from others'."""
        return self._request.kind

    def recognises(self, frame: memoryview) -> bool:
        """Whether a request is of this lane's kind, to be driven here or not."""
        return self._request.offset_in(frame) is not None

    @property
    def is_over(self) -> bool:
        """Its partition is gone, or another one has its name."""
        partition = self._partition
        current = self._broker.partitions.find(partition.topic, partition.index)
        return current is not partition

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end, or to where it waits; None if it does not belong here."""
        fetch_offset = self._request.offset_in(frame)
        if fetch_offset is None:
            return None
        records = self._read(fetch_offset)
        if records is None:
            return None
        needed = self._limits.min_bytes - len(records)
        if needed > 0:
            _release(records)
            if self._limits.max_wait_s <= 0:
                return None
            return Dispatched(
                lets_pass=True, postponed=_WaitingFetch(self, frame, fetch_offset, needed)
            )
        return Dispatched(self._answer(frame, records))

    def answer_now(self, frame: memoryview, fetch_offset: int) -> list[Any] | None:
        """The answer to a request that waited, however little there is; None as above."""
        records = self._read(fetch_offset)
        return None if records is None else self._answer(frame, records)

    def _read(self, fetch_offset: int) -> Any | None:
        """The records, perhaps none; None if this is not the ordinary case."""
        partition, limits = self._partition, self._limits
        log = partition.log
        if self._broker.partitions.find(log.topic, log.partition) is not partition:
            return None
        try:
            partition.check_leader_epoch(limits.current_leader_epoch)
            slices = partition.read(
                fetch_offset,
                limits.max_bytes,
                limits.isolation_level,
                minimum_one_batch=True,
                may_block=False,
            ).slices
        except (KafkaError, BlockingIOError):
            return None
        if not slices:
            return b""
        records = slices[0]
        if not records.is_resident() or (
            limits.isolation_level == _READ_COMMITTED
            and _may_hold_aborted(partition, records, fetch_offset)
        ):
            records.release()
            return None
        return records

    def _answer(self, frame: memoryview, records: Any) -> list[Any]:
        partition = self._partition
        return self._response.fill(
            correlation_id_of(frame),
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            records,
        )

    @property
    def wakeups(self) -> Wakeups:
        return self._broker.wakeups

    @property
    def waiting_room(self) -> WaitingRoom:
        return self._partition.waiting

    @property
    def waits_for_stable(self) -> bool:
        return self._limits.isolation_level == _READ_COMMITTED

    @property
    def max_wait_s(self) -> float:
        return self._limits.max_wait_s


class _WaitingFetch:
    """A request that found too little: answered when there is more, or when its time is over."""

    __slots__ = ("_deliver", "_frame", "_is_cancelled", "_lane", "_offset", "_timer", "_waiter")

    def __init__(
        self, lane: FetchLane, frame: memoryview, fetch_offset: int, needed_bytes: int
    ) -> None:
        self._lane = lane
        self._frame = frame
        self._offset = fetch_offset
        self._waiter = Waiter(needed_bytes, self._wake)
        self._is_cancelled = False

    def start(self, deliver: Callable[[list[Any] | None], None]) -> None:
        self._deliver = deliver
        self._lane.waiting_room.enter(self._waiter, for_stable=self._lane.waits_for_stable)
        self._timer = asyncio.get_running_loop().call_later(
            self._lane.max_wait_s, self._waiter.disturb
        )

    def cancel(self) -> None:
        self._is_cancelled = True
        self._lane.waiting_room.leave(self._waiter)
        self._timer.cancel()

    def _wake(self) -> None:
        self._timer.cancel()
        self._lane.wakeups.add(self._finish)

    def _finish(self) -> None:
        if self._is_cancelled:
            return
        self._lane.waiting_room.leave(self._waiter)
        try:
            parts = self._lane.answer_now(self._frame, self._offset)
        except Exception:  # noqa: BLE001  its peer would wait for ever
            _log.exception("a fetch that waited goes the ordinary way")
            parts = None
        self._deliver(parts)


def _may_hold_aborted(partition: Partition, records: Any, fetch_offset: int) -> bool:
    """Whether aborted transactions have to be named with the records, or that is not known."""
    end_offset = partition.last_stable_offset
    try:
        found = partition.log.aborted_in(records, fetch_offset, end_offset, may_block=False)
    except (KafkaError, BlockingIOError):
        return True
    return bool(found)


def _release(records: Any) -> None:
    if records:
        records.release()
