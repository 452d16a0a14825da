"""AddPartitionsToTxn (key 24), versions 0-5: partitions join a transaction.

- Up to version 3 a producer names the partitions of its own transaction. Version 4 brought
  the form in which brokers ask for several transactions at once, or only whether their
  partitions have joined (KIP-890).
- If one partition does not exist, none of its transaction is added: the others get
  OPERATION_NOT_ATTEMPTED.
- Internal topics are not for producers: offsets join by AddOffsetsToTxn.
- Before version 2 clients know no PRODUCER_FENCED: it is INVALID_PRODUCER_EPOCH to them.
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.coordination.transactions.transaction import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.turns import Work, let_go
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import ZERO, Shape

_FENCED_FROM: Final = 2
#: From this version on it is brokers that ask, to whom no topic is forbidden.
_BROKERS_FROM: Final = 4

Codes = dict[TopicPartition, ErrorCode]


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    if not shape.has("AddPartitionsToTxnResult"):
        codes = await _add(
            context,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
            client_version=CLASSIC_VERSION,
        )
        return _respond(shape, codes)
    results = []
    for each in request.transactions:
        codes = await _add(
            context,
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.topics,
            client_version=EPOCH_BUMP_VERSION,
            verify_only=each.verify_only,
        )
        results.append(
            shape(
                "AddPartitionsToTxnResult",
                transactional_id=each.transactional_id,
                topic_results=await context.broker.turns.run(_topics(shape, codes)),
            )
        )
    return shape(
        "AddPartitionsToTxnResponse",
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(results),
    )


async def _add(
    context: RequestContext,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: Any,
    *,
    client_version: int,
    verify_only: bool = False,
) -> Codes:
    wanted, refused = await context.broker.turns.run(_sort(context, topics))
    if refused:
        return await context.broker.turns.run(_not_added(wanted, refused))
    codes = await context.broker.transactions.add_partitions(
        transactional_id,
        producer_id,
        producer_epoch,
        wanted,
        verify_only=verify_only,
        client_version=client_version,
    )
    if context.version < _FENCED_FROM:
        return {
            each: ErrorCode.invalid_producer_epoch if code is ErrorCode.producer_fenced else code
            for each, code in codes.items()
        }
    return codes


def _sort(context: RequestContext, topics: Any) -> Work[tuple[list[TopicPartition], Codes]]:
    """What is to be added, each once, and that because of which none is."""
    has_partition = context.broker.metadata.image.has_partition_of
    wanted: dict[TopicPartition, None] = {}
    internal: Codes = {}
    missing: Codes = {}
    for topic in topics:
        yield
        is_forbidden = context.version < _BROKERS_FROM and topic.name in INTERNAL_TOPICS
        for index in topic.partitions:
            wanted[topic.name, index] = None
            if is_forbidden:
                internal[topic.name, index] = ErrorCode.topic_authorization_failed
            elif not has_partition(topic.name, index):
                missing[topic.name, index] = ErrorCode.unknown_topic_or_partition
            yield
    return list(wanted), internal or missing


def _not_added(wanted: list[TopicPartition], refused: Codes) -> Work[Codes]:
    codes: Codes = {}
    for each in wanted:
        codes[each] = refused.get(each, ErrorCode.operation_not_attempted)
        yield
    yield from let_go(refused)
    return codes


def _respond(shape: Shape, codes: Codes) -> Work[Any]:
    topics = yield from _topics(shape, codes)
    return shape(
        "AddPartitionsToTxnResponse", throttle_time=ZERO, results_by_topic_v3_and_below=topics
    )


def _topics(shape: Shape, codes: Codes) -> Work[tuple[Any, ...]]:
    by_topic: dict[str, list[Any]] = {}
    for (topic, index), code in codes.items():
        by_topic.setdefault(topic, []).append(
            shape(
                "AddPartitionsToTxnPartitionResult",
                partition_index=index,
                partition_error_code=code,
            )
        )
        yield
    topics = []
    for name, results in by_topic.items():
        topics.append(
            shape("AddPartitionsToTxnTopicResult", name=name, results_by_partition=tuple(results))
        )
        yield
    yield from let_go(codes)
    return tuple(topics)
