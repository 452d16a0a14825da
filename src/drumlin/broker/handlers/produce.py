"""Produce (key 0), versions 3-13: append one record batch to each of some partitions.

- Answered once the leader has it (acks=1), or all in-sync replicas (acks=-1), or never
  (acks=0; an error then closes the connection, which is all that can be said).
- Every partition succeeds or fails by itself; a batch that fails leaves nothing behind.
- A topic with `flush.messages` is answered after the fsync that its batch made due.

Version notes: 7 allows zstd; 8 adds `record_errors` and `error_message` (KIP-467); 10 adds
the current leader to NOT_LEADER_OR_FOLLOWER (KIP-951); 13 names topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from drumlin.broker.context import RequestContext, Waiting
from drumlin.broker.produce_lane import ProduceLane
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.records.batch import COMPRESSION_MASK
from drumlin.records.validation import (
    InvalidBatch,
    PreparedBatch,
    UnfitRecords,
    prepare_produce,
)
from drumlin.replication.partition import Partition
from drumlin.storage.partition_log import AppendResult
from drumlin.wire.errors import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.messages import ZERO, Shape, encode_response
from drumlin.wire.produce_request import (
    PartitionProduce,
    ProduceRequest,
    TopicProduce,
    parse_produce_request,
)
from drumlin.wire.produce_template import RequestTemplate, ResponseTemplate

_ADMIN_CLIENT_ID: Final = "__admin_client"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZSTD_FROM_VERSION: Final = 7
_NO_TIME: Final = -1
_UNKNOWN_OFFSET: Final = -1
#: Errors that Apache Kafka tells without the log start offset, although it knows it.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.invalid_txn_state,
        ErrorCode.kafka_storage_error,
        ErrorCode.message_too_large,
        ErrorCode.transactional_id_authorization_failed,
    }
)
_NO_RECORDS: Final = memoryview(b"")
#: Bytes behind the records of the last partition: empty tagged fields of three structures.
_TAILS: Final = dict.fromkeys(range(3, 9), 0)
_ATTRIBUTES_LOW_BYTE: Final = 22
#: Compressed batches from this size on are unpacked and checked in a thread.
_OFF_LOOP_BYTES: Final = 32 * 1024

parse = parse_produce_request


class _Appended(NamedTuple):
    """What became of one partition's batch."""

    partition: int
    result: AppendResult | None = None
    error: KafkaError | None = None
    log_start_offset: int = _UNKNOWN_OFFSET
    must_flush: Partition | None = None


def open_lane(
    context: RequestContext, request: ProduceRequest, frame: memoryview, shape: Shape
) -> ProduceLane | None:
    """A fast lane for requests like this one; None if it is not of the kind that has one."""
    if request.acks == 0 or len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic, part = request.topics[0], request.topics[0].partitions[0]
    # What answers need of the request, without the records, which would stay in memory.
    bare, bare_topic = request._replace(topics=[]), topic._replace(partitions=[])
    index = part.partition

    def encode(correlation_id: int, appended: _Appended) -> list[Any]:
        message = _respond(bare, shape, [(bare_topic, [appended])])
        return encode_response("produce", context.version, correlation_id, message)

    try:
        partition = _find(context, topic, index)
        example = AppendResult(
            ResponseTemplate.BASE_OFFSET,
            ResponseTemplate.BASE_OFFSET,
            _NO_TIME,
            ResponseTemplate.LOG_START_OFFSET,
            is_duplicate=False,
        )
        encoded = b"".join(encode(0, _Appended(index, example)))
        return ProduceLane(
            context.broker,
            partition,
            request.acks,
            context.version >= _ZSTD_FROM_VERSION,
            RequestTemplate(frame, part.records or _NO_RECORDS, _TAILS.get(context.version, 3)),
            ResponseTemplate(encoded),
            lambda number, error: encode(number, _failed(index, error, partition)),
        )
    except (KafkaError, ValueError):  # no such partition, or no place for the offsets
        return None


def handle(context: RequestContext, request: ProduceRequest, shape: Shape) -> Any:
    if request.acks not in (-1, 0, 1):
        return _refuse_all(request, shape, KafkaError(ErrorCode.invalid_required_acks))
    if any(_is_heavy(part) for topic in request.topics for part in topic.partitions):
        return _handle_heavy(context, request, shape)
    appended = [
        (topic, [_append(context, request, topic, part) for part in topic.partitions])
        for topic in request.topics
    ]
    return _answer(context, request, shape, appended)


async def _handle_heavy(context: RequestContext, request: ProduceRequest, shape: Shape) -> Any:
    """As `handle`, with the unpacking of large compressed batches in threads."""
    appended = []
    for topic in request.topics:
        results = [await _append_heavy(context, request, topic, p) for p in topic.partitions]
        appended.append((topic, results))
    answer = _answer(context, request, shape, appended)
    return await answer.awaitable if isinstance(answer, Waiting) else answer


def _is_heavy(part: PartitionProduce) -> bool:
    records = part.records
    if records is None or len(records) < _OFF_LOOP_BYTES:
        return False
    return bool(records[_ATTRIBUTES_LOW_BYTE] & COMPRESSION_MASK)


def _append(
    context: RequestContext, request: ProduceRequest, topic: TopicProduce, part: PartitionProduce
) -> _Appended:
    partition = None
    try:
        partition = _find(context, topic, part.partition)
        records = _present(part.records, context.version)
        now_ms = context.broker.clock.wall_ms()
        batch = _prepare(context.version, partition, records, now_ms)
        return _write(context, request, partition, batch, now_ms)
    except KafkaError as error:
        return _failed(part.partition, error, partition)


async def _append_heavy(
    context: RequestContext, request: ProduceRequest, topic: TopicProduce, part: PartitionProduce
) -> _Appended:
    if not _is_heavy(part):
        return _append(context, request, topic, part)
    partition = None
    try:
        partition = _find(context, topic, part.partition)
        records = _present(part.records, context.version)
        now_ms = context.broker.clock.wall_ms()
        batch = await context.broker.blocking(_prepare, context.version, partition, records, now_ms)
        # The topic may have gone meanwhile, and come again.
        partition = _find(context, topic, part.partition)
        return _write(context, request, partition, batch, now_ms)
    except KafkaError as error:
        return _failed(part.partition, error, partition)


def _failed(index: int, error: KafkaError, partition: Partition | None) -> _Appended:
    if partition is None or isinstance(error, UnfitRecords) or error.code in _WITHOUT_START_OFFSET:
        return _Appended(index, error=error)
    return _Appended(index, error=error, log_start_offset=partition.log_start_offset)


def _find(context: RequestContext, topic: TopicProduce, partition: int) -> Partition:
    if context.version >= 13:
        name = context.broker.name_of_topic(topic.topic_id)
    else:
        name = topic.name or ""
    found = context.broker.partitions.get(name, partition)
    if name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {name}"
        )
    return found


def _present(records: memoryview | None, version: int) -> memoryview:
    if not records:
        raise UnfitRecords(
            ErrorCode.invalid_record,
            f"Produce requests with version {version} must have at least one record batch per "
            "partition",
        )
    return records


def _prepare(version: int, partition: Partition, records: memoryview, now_ms: int) -> PreparedBatch:
    log = partition.log
    return prepare_produce(
        records,
        log.append_rules,
        now_ms,
        log_name=log.name,
        allows_zstd=version >= _ZSTD_FROM_VERSION,
    )


def _write(
    context: RequestContext,
    request: ProduceRequest,
    partition: Partition,
    batch: PreparedBatch,
    now_ms: int,
) -> _Appended:
    if batch.header.is_transactional:
        if request.transactional_id is None:
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
        # No transaction can be ongoing here, so the batch belongs to none.
        raise KafkaError(ErrorCode.invalid_txn_state)
    result = partition.append_as_leader(batch, request.acks, now_ms)
    must_flush = partition if partition.log.is_flush_due else None
    return _Appended(partition.index, result, must_flush=must_flush)


def _answer(
    context: RequestContext,
    request: ProduceRequest,
    shape: Shape,
    appended: list[tuple[TopicProduce, list[_Appended]]],
) -> Any:
    to_flush = [each.must_flush for _, parts in appended for each in parts if each.must_flush]
    if to_flush:
        return Waiting(_answer_flushed(context, request, shape, appended, to_flush))
    return _respond(request, shape, appended)


async def _answer_flushed(
    context: RequestContext,
    request: ProduceRequest,
    shape: Shape,
    appended: list[tuple[TopicProduce, list[_Appended]]],
    to_flush: list[Partition],
) -> Any:
    flushes: list[Awaitable[None]] = [context.broker.flushes.flush(each) for each in to_flush]
    failures = await asyncio.gather(*flushes, return_exceptions=True)
    failed = {
        partition: KafkaError(ErrorCode.kafka_storage_error, str(failure))
        for partition, failure in zip(to_flush, failures, strict=True)
        if failure is not None
    }
    appended = [
        (
            topic,
            [
                each._replace(result=None, error=failed[each.must_flush])
                if each.must_flush in failed
                else each
                for each in parts
            ],
        )
        for topic, parts in appended
    ]
    return _respond(request, shape, appended)


def _respond(
    request: ProduceRequest, shape: Shape, appended: list[tuple[TopicProduce, list[_Appended]]]
) -> Any:
    if request.acks == 0:
        errors = [each.error for _, parts in appended for each in parts if each.error]
        if errors:
            raise MalformedMessage(f"produce with acks=0 failed: {errors[0]}")
        return None
    responses = tuple(
        shape(
            "TopicProduceResponse",
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=tuple(_partition_response(shape, each) for each in parts),
        )
        for topic, parts in appended
        if parts
    )
    return shape("ProduceResponse", responses=responses, throttle_time=ZERO)


def _partition_response(shape: Shape, appended: _Appended) -> Any:
    result = appended.result
    if result is None:
        return _failed_partition(shape, appended)
    time_ms = result.log_append_time_ms
    return shape(
        "PartitionProduceResponse",
        index=appended.partition,
        error_code=ErrorCode.none,
        base_offset=result.base_offset,
        log_append_time=None if time_ms < 0 else _EPOCH + timedelta(milliseconds=time_ms),
        log_start_offset=result.log_start_offset,
        record_errors=(),
        error_message=None,
    )


def _failed_partition(shape: Shape, appended: _Appended) -> Any:
    error = appended.error
    assert error is not None
    # Only what is wrong with records is told in words; other codes speak for themselves.
    invalid = error if isinstance(error, InvalidBatch) else None
    return shape(
        "PartitionProduceResponse",
        index=appended.partition,
        error_code=error.code,
        base_offset=_UNKNOWN_OFFSET,
        log_append_time=None,
        log_start_offset=appended.log_start_offset,
        record_errors=tuple(
            shape("BatchIndexAndErrorMessage", batch_index=index, batch_index_error_message=why)
            for index, why in invalid.record_errors
        )
        if invalid and shape.has("BatchIndexAndErrorMessage")
        else (),
        error_message=invalid.message if invalid else None,
    )


def _refuse_all(request: ProduceRequest, shape: Shape, error: KafkaError) -> Any:
    refused = [
        (topic, [_Appended(part.partition, error=error) for part in topic.partitions])
        for topic in request.topics
    ]
    return _respond(request._replace(acks=1), shape, refused)
