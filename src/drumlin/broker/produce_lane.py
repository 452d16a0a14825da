"""The fast lane of produce requests: what a connection's producer sent before, again.

Only the ordinary case is driven here: one batch for one partition, answered at once. Whatever
is different is left to `handlers/produce.py`, which decides it from the start; nothing has been
changed by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.dispatched import Dispatched
from drumlin.records.batch import (
    ATTRIBUTES_LOW_BYTE,
    HEADER_SIZE,
    TRANSACTIONAL_MASK,
    parse_producer,
)
from drumlin.records.validation import prepare_at_once
from drumlin.wire.errors import KafkaError
from drumlin.wire.frame_answers import correlation_id_of
from drumlin.wire.produce_template import RequestTemplate, ResponseTemplate

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.replication.partition import Partition

_NEVER: Final = 2**63 - 1

#: The answer to a request that is refused: correlation id and reason to a frame's parts.
Refuse = Callable[[int, KafkaError], list[Any]]


class ProduceLane:
    """Requests of one connection to one partition."""

    __slots__ = (
        "_acks",
        "_allows_zstd",
        "_broker",
        "_has_transactional_id",
        "_partition",
        "_refuse",
        "_request",
        "_response",
    )

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        acks: int,
        has_transactional_id: bool,
        allows_zstd: bool,
        request: RequestTemplate,
        response: ResponseTemplate,
        refuse: Refuse,
    ) -> None:
        self._broker = broker
        self._partition = partition
        self._acks = acks
        self._has_transactional_id = has_transactional_id
        self._allows_zstd = allows_zstd
        self._request = request
        self._response = response
        self._refuse = refuse

    @property
    def kind(self) -> bytes:
        """What tells this lane's requests from others'."""
        return self._request.kind

    def recognises(self, frame: memoryview) -> bool:
        """Whether a request is of this lane's kind, to be driven here or not."""
        return self._request.records_in(frame) is not None

    @property
    def is_over(self) -> bool:
        """Its partition is gone, or another one has its name."""
        partition = self._partition
        current = self._broker.partitions.find(partition.topic, partition.index)
        return current is not partition

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end; None if it does not belong here."""
        records = self._request.records_in(frame)
        if records is None:
            return None
        partition, broker = self._partition, self._broker
        log = partition.log
        if (
            broker.partitions.find(log.topic, log.partition) is not partition
            or log.config.flush_messages != _NEVER
            or len(records) <= ATTRIBUTES_LOW_BYTE
            or (
                records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_MASK
                and not self._continues_transaction(records)
            )
        ):
            return None
        if records.readonly:
            records = memoryview(bytearray(records))
        now_ms = broker.clock.wall_ms()
        try:
            batch = prepare_at_once(
                records,
                log.append_rules,
                now_ms,
                log_name=log.name,
                allows_zstd=self._allows_zstd,
            )
            if batch is None:
                return None
            result = partition.append_as_leader(batch, self._acks, now_ms, None)
        except KafkaError as error:
            return Dispatched(self._refuse(correlation_id_of(frame), error))
        answer = self._response.fill(
            correlation_id_of(frame),
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
        return Dispatched([answer])

    def _continues_transaction(self, records: memoryview) -> bool:
        """Whether a transactional batch belongs to a transaction that the log has open."""
        if not self._has_transactional_id or len(records) < HEADER_SIZE:
            return False
        producer_id, producer_epoch = parse_producer(records)
        state = self._partition.log.producer_state
        return state.has_open_transaction(producer_id, producer_epoch)
