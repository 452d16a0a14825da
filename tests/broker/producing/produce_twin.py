"""Produce as simply as it can be written: schemas, one batch after the other, nothing in place."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from drumlin.broker.start.broker import Broker
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.records.validation.validation import InvalidBatch, UnfitRecords, prepare_produce
from drumlin.storage.producers.append_result import AppendResult
from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.messages import ZERO, encode_response, parse_request, parse_request_header
from rig.data.messages import Shape, response_shape

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_TOLD = {
    ErrorCode.corrupt_message,
    ErrorCode.invalid_required_acks,
    ErrorCode.kafka_storage_error,
    ErrorCode.message_too_large,
}
Outcome = tuple[AppendResult | KafkaError, int]


def answer(broker: Broker, frame: bytes) -> bytes | None:
    """The answer to a request without transactions; every topic is flushed at once."""
    header = parse_request_header(frame)
    version = header.api_version
    request = parse_request("produce", version, frame, header.size)
    shape = response_shape("produce", version)
    batches = [part.records for topic in request.topic_data for part in topic.partition_data]
    outcomes: list[Outcome] = []
    for topic in request.topic_data:
        for part in topic.partition_data:
            if request.transactional_id is None and any(map(_is_transactional, batches)):
                code = ErrorCode.transactional_id_authorization_failed
                outcomes.append((KafkaError(code), -1))
            else:
                outcomes.append(_append(broker, header, request.acks, topic, part))
    if request.acks == 0:
        if any(isinstance(outcome, KafkaError) for outcome, _ in outcomes):
            raise MalformedMessage("an error, and no client to answer")
        return None
    response = _response(shape, request, outcomes)
    return b"".join(encode_response("produce", version, header.correlation_id, response))


def _append(broker: Broker, header: Any, acks: int, topic: Any, part: Any) -> Outcome:
    partition = None
    version = header.api_version
    now_ms = broker.clock.wall_ms()
    try:
        name = broker.name_of_topic(topic.topic_id) if version >= 13 else topic.name
        partition = broker.partitions.get(name, part.index)
        if name in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.invalid_topic_exception)
        if not part.records:
            words = f"Produce requests with version {version} must have at least one record batch"
            raise UnfitRecords(ErrorCode.invalid_record, f"{words} per partition")
        if acks not in (-1, 0, 1):
            raise KafkaError(ErrorCode.invalid_required_acks)
        log = partition.log
        batch = prepare_produce(
            bytearray(part.records),
            log.append_rules,
            now_ms,
            log_name=log.name,
            allows_zstd=version >= 7,
        )
        return partition.append_as_leader(batch, acks, now_ms, None), partition.log_start_offset
    except KafkaError as error:
        told = partition is not None and not isinstance(error, UnfitRecords)
        if partition is None or not told or error.code in _NOT_TOLD:
            return error, -1
        return error, partition.log_start_offset


def _is_transactional(records: bytes | None) -> bool:
    return records is not None and len(records) > 22 and bool(records[22] & 16) and records[16] == 2


def _response(shape: Shape, request: Any, outcomes: Iterable[Outcome]) -> Any:
    following = iter(outcomes)
    responses = tuple(
        shape(
            "TopicProduceResponse",
            name=getattr(topic, "name", None),
            topic_id=getattr(topic, "topic_id", None),
            partition_responses=tuple(
                _partition(shape, part.index, *next(following)) for part in topic.partition_data
            ),
        )
        for topic in request.topic_data
        if topic.partition_data
    )
    return shape("ProduceResponse", responses=responses, throttle_time=ZERO)


def _partition(
    shape: Shape, index: int, outcome: AppendResult | KafkaError, log_start_offset: int
) -> Any:
    error = outcome if isinstance(outcome, KafkaError) else None
    result = outcome if isinstance(outcome, AppendResult) else None
    invalid = error if isinstance(error, InvalidBatch) else None
    time_ms = -1 if result is None else result.log_append_time_ms
    errors = invalid.record_errors if invalid and shape.has("BatchIndexAndErrorMessage") else ()
    return shape(
        "PartitionProduceResponse",
        index=index,
        error_code=ErrorCode.none if error is None else error.code,
        base_offset=-1 if result is None else result.base_offset,
        log_append_time=None if time_ms < 0 else _EPOCH + timedelta(milliseconds=time_ms),
        log_start_offset=log_start_offset if result is None else result.log_start_offset,
        record_errors=tuple(
            shape("BatchIndexAndErrorMessage", batch_index=number, batch_index_error_message=why)
            for number, why in errors
        ),
        error_message=None if invalid is None else invalid.message,
    )
