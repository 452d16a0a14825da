"""Produce (key 0), versions 3-13: append one record batch to each of some partitions.

- Answered once the leader has it (acks=1), or all in-sync replicas (acks=-1), or never
  (acks=0; an error then closes the connection, which is all that can be said).
- Every partition succeeds or fails by itself; a batch that fails leaves nothing behind.
- A topic with `flush.messages` is answered after the fsync that its batch made due.
- Transactional batches are held back until their transaction is known to have the partition
  (`produce_verification.py`); the connection's next request waits too, so the order holds.

Version notes: 7 allows zstd; 8 adds `record_errors` and `error_message` (KIP-467); 10 adds
the current leader to NOT_LEADER_OR_FOLLOWER (KIP-951); from 11 TRANSACTION_ABORTABLE is known,
and from 12 partitions are added to their transaction (KIP-890); 13 names topics by id.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.broker.context import RequestContext, Waiting
from drumlin.broker.produce_lane import ProduceLane
from drumlin.broker.produce_verification import (
    PartKey,
    TransactionalPart,
    Unverified,
    Verified,
    ask,
    begin,
    header_of,
    is_transactional,
)
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.records.validation import (
    InvalidBatch,
    PreparedBatch,
    UnfitRecords,
    prepare_at_once,
    prepare_produce,
)
from drumlin.replication.partition import Partition
from drumlin.storage.append_result import AppendResult
from drumlin.storage.verification import Verification
from drumlin.wire.errors import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.messages import ZERO, Shape, encode_response, parse_request_header
from drumlin.wire.produce_request import (
    PartitionProduce,
    ProduceRequest,
    TopicProduce,
    first_records_position,
    parse_produce_request,
)
from drumlin.wire.produce_template import RequestTemplate, ResponseTemplate

_ADMIN_CLIENT_ID: Final = "__admin_client"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZSTD_FROM_VERSION: Final = 7
_FLEXIBLE_FROM_VERSION: Final = 9
_NO_TIME: Final = -1
_UNKNOWN_OFFSET: Final = -1
#: Errors that Apache Kafka tells without the log start offset, although it knows it.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
        ErrorCode.message_too_large,
        ErrorCode.transactional_id_authorization_failed,
    }
)

T = TypeVar("T")

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
    if request.acks not in (-1, 1) or [len(topic.partitions) for topic in request.topics] != [1]:
        return None
    if any(lane.recognises(frame) for lane in context.connection.lanes.values()):
        return None  # it was not for this request, as for the first one of a transaction
    topic, part = request.topics[0], request.topics[0].partitions[0]
    index = part.partition
    # What answers need of the request, without the records, which would stay in memory.
    bare_topic = topic._replace(partitions=[PartitionProduce(index, None)])
    bare = request._replace(topics=[bare_topic])

    def encode(correlation_id: int, appended: _Appended) -> list[Any]:
        message = _respond(bare, shape, [appended])
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
            request.transactional_id is not None,
            context.version >= _ZSTD_FROM_VERSION,
            _template(context.version, frame),
            ResponseTemplate(encoded),
            lambda number, error: encode(number, _failed(index, error, partition)),
        )
    except (KafkaError, ValueError):  # no such partition, or no place for the offsets
        return None


def _template(version: int, frame: memoryview) -> RequestTemplate:
    position = first_records_position(version, frame, parse_request_header(frame).size)
    return RequestTemplate(frame, position, is_flexible=version >= _FLEXIBLE_FROM_VERSION)


def handle(context: RequestContext, request: ProduceRequest, shape: Shape) -> Any:
    if request.acks not in (-1, 0, 1):
        return _refuse_all(request, shape, KafkaError(ErrorCode.invalid_required_acks))
    if any(is_transactional(part.records) for _, part in _parts(request)):
        return _append_transactional(context, request, shape)
    return _append(context, request, shape, None)


def _append_transactional(context: RequestContext, request: ProduceRequest, shape: Shape) -> Any:
    if request.transactional_id is None:
        refusal = KafkaError(ErrorCode.transactional_id_authorization_failed)
        return _respond_to_all(request, shape, refusal)
    parts = list(_transactional_parts(context, request))
    if len({(each.header.producer_id, each.header.producer_epoch) for each in parts}) > 1:
        refusal = Unverified(ErrorCode.invalid_producer_id_mapping, "batches of several producers")
        return _respond_to_all(request, shape, refusal)
    verified = begin(context.broker, context.version, parts)
    if verified.asked:
        return _append_verified(context, request, shape, parts, verified)
    return _append(context, request, shape, verified)


def _transactional_parts(
    context: RequestContext, request: ProduceRequest
) -> Iterator[TransactionalPart]:
    for topic, part in _parts(request):
        header = header_of(part.records) if part.records else None
        if header is None:
            continue
        try:
            partition = _find(context, topic, part.partition)
        except KafkaError:
            continue  # it is told when the batch is to be appended
        yield TransactionalPart(_key(topic, part), partition, header)


def _key(topic: TopicProduce, part: PartitionProduce) -> PartKey:
    return topic.name or topic.topic_id, part.partition


async def _append_verified(
    context: RequestContext,
    request: ProduceRequest,
    shape: Shape,
    parts: list[TransactionalPart],
    verified: Verified,
) -> Any:
    assert request.transactional_id is not None
    await ask(context.broker, context.version, request.transactional_id, parts, verified)
    answer = _append(context, request, shape, verified)
    if isinstance(answer, Waiting):
        return await answer.awaitable
    return await answer if inspect.isawaitable(answer) else answer


def _append(
    context: RequestContext, request: ProduceRequest, shape: Shape, verified: Verified | None
) -> Any:
    """Append all batches; `verified` is None where none of them is transactional."""
    parts = _parts(request)
    appended: list[_Appended] = []
    for topic, part in parts:
        done = _append_at_once(context, request, topic, part, verified)
        if done is None:
            rest = [(topic, part), *parts]
            return _append_in_threads(context, request, shape, appended, rest, verified)
        appended.append(done)
    return _answer(context, request, shape, appended)


def _parts(request: ProduceRequest) -> Iterator[tuple[TopicProduce, PartitionProduce]]:
    return ((topic, part) for topic in request.topics for part in topic.partitions)


async def _append_in_threads(
    context: RequestContext,
    request: ProduceRequest,
    shape: Shape,
    appended: list[_Appended],
    rest: list[tuple[TopicProduce, PartitionProduce]],
    verified: Verified | None,
) -> Any:
    """The rest of a request, with a batch in it that takes long to check."""
    for topic, part in rest:
        done = _append_at_once(context, request, topic, part, verified)
        if done is None:
            done = await _append_in_thread(context, request, topic, part, verified)
        appended.append(done)
    answer = _answer(context, request, shape, appended)
    return await answer.awaitable if isinstance(answer, Waiting) else answer


def _append_at_once(
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduce,
    part: PartitionProduce,
    verified: Verified | None,
) -> _Appended | None:
    """Append one batch; None, and nothing done, if checking it needs a thread."""
    partition = None
    try:
        verification = verified.check(_key(topic, part)) if verified else None
        partition = _find(context, topic, part.partition)
        records = _present(part.records, context.version)
        now_ms = context.broker.clock.wall_ms()
        batch = _prepare(prepare_at_once, context.version, partition, records, now_ms)
        if batch is None:
            return None
        return _write(request, partition, batch, now_ms, verification)
    except KafkaError as error:
        return _failed(part.partition, error, partition)


async def _append_in_thread(
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduce,
    part: PartitionProduce,
    verified: Verified | None,
) -> _Appended:
    partition = None
    try:
        verification = verified.check(_key(topic, part)) if verified else None
        partition = _find(context, topic, part.partition)
        records = _present(part.records, context.version)
        now_ms = context.broker.clock.wall_ms()
        batch = await context.broker.blocking(
            _prepare, prepare_produce, context.version, partition, records, now_ms
        )
        # The topic may have gone meanwhile, and come again.
        partition = _find(context, topic, part.partition)
        return _write(request, partition, batch, now_ms, verification)
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


def _prepare(
    prepare: Callable[..., T], version: int, partition: Partition, records: memoryview, now_ms: int
) -> T:
    log = partition.log
    return prepare(
        records,
        log.append_rules,
        now_ms,
        log_name=log.name,
        allows_zstd=version >= _ZSTD_FROM_VERSION,
    )


def _write(
    request: ProduceRequest,
    partition: Partition,
    batch: PreparedBatch,
    now_ms: int,
    verification: Verification | None,
) -> _Appended:
    result = partition.append_as_leader(batch, request.acks, now_ms, verification)
    must_flush = partition if partition.log.is_flush_due else None
    return _Appended(partition.index, result, must_flush=must_flush)


def _answer(
    context: RequestContext, request: ProduceRequest, shape: Shape, appended: list[_Appended]
) -> Any:
    if any(each.must_flush for each in appended):
        return Waiting(_answer_flushed(context, request, shape, appended))
    return _respond(request, shape, appended)


async def _answer_flushed(
    context: RequestContext, request: ProduceRequest, shape: Shape, appended: list[_Appended]
) -> Any:
    flushes = {
        each.must_flush: context.broker.flushes.flush(each.must_flush)
        for each in appended
        if each.must_flush
    }
    await asyncio.gather(*flushes.values(), return_exceptions=True)
    for index, each in enumerate(appended):
        failure = flushes[each.must_flush].exception() if each.must_flush else None
        if failure is not None:
            error = KafkaError(ErrorCode.kafka_storage_error, str(failure))
            appended[index] = each._replace(result=None, error=error)
    return _respond(request, shape, appended)


def _respond(request: ProduceRequest, shape: Shape, appended: Iterable[_Appended]) -> Any:
    """The response; `appended` is in the order of the request's partitions."""
    if request.acks == 0:
        error = next((each.error for each in appended if each.error), None)
        if error is not None:
            raise MalformedMessage(f"produce with acks=0 failed: {error}")
        return None
    outcomes = iter(appended)
    responses = tuple(
        shape(
            "TopicProduceResponse",
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=tuple(
                _partition_response(shape, next(outcomes)) for _ in topic.partitions
            ),
        )
        for topic in request.topics
        if topic.partitions
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
        log_append_time=None if time_ms < 0 else _time(time_ms),
        log_start_offset=result.log_start_offset,
        record_errors=(),
        error_message=None,
    )


def _time(time_ms: int) -> datetime:
    """A time as the schemas want it, who know none behind the year 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return datetime.max.replace(microsecond=0, tzinfo=UTC)


def _failed_partition(shape: Shape, appended: _Appended) -> Any:
    error = appended.error
    assert error is not None
    # What is wrong with records or their transaction is told in words; other codes speak for
    # themselves.
    invalid = error if isinstance(error, InvalidBatch) else None
    message = error.message if isinstance(error, InvalidBatch | Unverified) else None
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
        error_message=message,
    )


def _refuse_all(request: ProduceRequest, shape: Shape, error: KafkaError) -> Any:
    """As below, although the client may not want an answer."""
    return _respond_to_all(request._replace(acks=1), shape, error)


def _respond_to_all(request: ProduceRequest, shape: Shape, error: KafkaError) -> Any:
    refused = [_Appended(part.partition, error=error) for _, part in _parts(request)]
    return _respond(request, shape, refused)
