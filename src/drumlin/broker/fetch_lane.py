"""The fast lane of fetch requests: what a connection's consumer sent before, at another offset.

Only the ordinary case is driven here: a fetch of one partition, without a session, of records
that are there and in memory. Whatever is different is left to `handlers/fetch.py`, which decides
it from the start; a fetch changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.broker.dispatched import Dispatched
from drumlin.wire.errors import KafkaError
from drumlin.wire.fetch_template import RequestTemplate, ResponseTemplate
from drumlin.wire.produce_template import correlation_id_of

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.replication.partition import Partition

_READ_COMMITTED: Final = 1


class Limits(NamedTuple):
    """What the requests of a lane have in common, beside the partition."""

    min_bytes: int
    max_bytes: int
    isolation_level: int
    current_leader_epoch: int


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

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end; None if it does not belong here."""
        fetch_offset = self._request.offset_in(frame)
        if fetch_offset is None:
            return None
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
            return None
        records, last_stable_offset = slices[0], partition.last_stable_offset
        if (
            len(records) < limits.min_bytes
            or not records.is_resident()
            or (
                limits.isolation_level == _READ_COMMITTED
                and log.aborted_transactions(fetch_offset, last_stable_offset)
            )
        ):
            records.release()
            return None
        return Dispatched(
            self._response.fill(
                correlation_id_of(frame),
                partition.high_watermark,
                last_stable_offset,
                log.log_start_offset,
                records,
            )
        )
