"""A broker whose answers get lost: for exactly-once delivery. All partitions are one log.

Checks sequences as Kafka does: per partition, producer id and epoch, a batch must follow the
last one; one of the last five again is a duplicate, answered with its first offset. `faults`
decides what happens to each produce request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from client.transactions.scripted_transactions import config
from drumlin.records.batch.batch import BatchHeader, parse_header
from drumlin.records.plain.record import Record, decode_batch
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker, Silence
from rig.data.messages import Shape

#: What to do with a request: an error code to answer without writing; "lost": write, and close
#: without an answer; "dropped": close without writing; "silent": write, and never answer;
#: None: write, and answer.
Fault = ErrorCode | str | None


class FlakyLog:
    """`records` are what a reader would see."""

    def __init__(self, broker: ScriptedBroker, faults: Iterator[Fault]) -> None:
        self.records: list[Record] = []
        self.headers: list[BatchHeader] = []
        self._faults = faults
        self._last: dict[tuple[int, int], list[tuple[BatchHeader, int]]] = {}
        self._next_producer_id = 1000
        broker.script("produce", self.produce)
        broker.script("init_producer_id", self.init_producer_id)
        # A refusal that is explained by a limit of the topic is told without it, and at once.
        broker.script("describe_configs", config(None, ErrorCode.topic_authorization_failed))

    def init_producer_id(self, shape: Shape, request: Any) -> Any:
        self._next_producer_id += 1
        return shape(
            "InitProducerIdResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            producer_id=self._next_producer_id,
            producer_epoch=0,
        )

    def produce(self, shape: Shape, request: Any) -> Any:
        fault = next(self._faults, None)
        if isinstance(fault, ErrorCode):
            return answer(shape, request, fault)
        if fault == "dropped":
            return CloseConnection()
        outcomes = [
            self._append(each.index, each.records) for each in request.topic_data[0].partition_data
        ]
        if fault == "lost":
            return CloseConnection()
        if fault == "silent":
            return Silence()
        return answers(shape, request, outcomes)

    def _append(self, partition: int, batch: bytes) -> tuple[ErrorCode, int]:
        header = parse_header(batch)
        known = self._last.setdefault((partition, header.producer_id), [])
        if header.producer_id >= 0:
            for earlier, base_offset in known[-5:]:
                if _same(earlier, header):
                    return ErrorCode.none, base_offset
            code = _check(known[-1][0] if known else None, header)
            if code is not ErrorCode.none:
                return code, -1
        base_offset = len(self.records)
        known.append((header, base_offset))
        self.headers.append(header)
        self.records += decode_batch(batch)
        return ErrorCode.none, base_offset


def _same(earlier: BatchHeader, header: BatchHeader) -> bool:
    return (
        earlier.producer_epoch == header.producer_epoch
        and earlier.base_sequence == header.base_sequence
        and earlier.last_sequence == header.last_sequence
    )


def _check(last: BatchHeader | None, header: BatchHeader) -> ErrorCode:
    if last is None:
        return ErrorCode.none  # whatever the sequence, as Kafka does
    if header.producer_epoch < last.producer_epoch:
        return ErrorCode.invalid_producer_epoch
    expected = last.last_sequence + 1 if header.producer_epoch == last.producer_epoch else 0
    if header.base_sequence != expected:
        return ErrorCode.out_of_order_sequence_number
    return ErrorCode.none


def answer(shape: Shape, request: Any, code: ErrorCode, base_offset: int = -1) -> Any:
    """The response to a produce request, the same for each of its partitions."""
    partitions = request.topic_data[0].partition_data
    return answers(shape, request, [(code, base_offset)] * len(partitions))


def answers(shape: Shape, request: Any, outcomes: list[tuple[ErrorCode, int]]) -> Any:
    """The response to a produce request for one topic: code and offset of each partition."""
    topic = request.topic_data[0]
    partitions = [
        shape(
            "PartitionProduceResponse",
            index=each.index,
            error_code=code,
            base_offset=base_offset,
            log_append_time=None,
            log_start_offset=0,
            record_errors=(),
            error_message=None,
        )
        for each, (code, base_offset) in zip(topic.partition_data, outcomes, strict=True)
    ]
    responses = (
        shape("TopicProduceResponse", name=topic.name, partition_responses=tuple(partitions)),
    )
    return shape("ProduceResponse", responses=responses, throttle_time=ZERO)


def values(log: FlakyLog) -> list[bytes | None]:
    return [record.value for record in log.records]
