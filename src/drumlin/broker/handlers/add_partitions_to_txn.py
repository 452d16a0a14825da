"""AddPartitionsToTxn (key 24), versions 0-5: partitions join a transaction.

- Up to version 3 a producer names the partitions of its own transaction. Version 4 brought a form
  for brokers: it names several transactions, and can just verify that partitions have joined
  (KIP-890). Only brokers may send that.
- If one partition does not exist, or may not be written to, no partition of its transaction is
  added: the others get OPERATION_NOT_ATTEMPTED.
- Producers may not add internal topics: for offsets there is AddOffsetsToTxn.
- Before version 2 clients do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.garbage import settled
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.coordination.transactions.transaction import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from drumlin.distinct import counted
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FENCED_FROM: Final = 2
#: From this version on, brokers send the request, and it may name any topic.
_BROKERS_FROM: Final = 4

#: Each partition once, with its code, in the order of the request.
Codes = list[tuple[TopicPartition, ErrorCode]]


async def handle(
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse:
    if request.transactions is None:
        codes = await _add(
            context,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
            client_version=CLASSIC_VERSION,
        )
        return await _respond(codes)

    context.require_cluster(Operation.CLUSTER_ACTION)

    async def answer(each: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        codes = await _add(
            context,
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.topics,
            client_version=EPOCH_BUMP_VERSION,
            verify_only=each.verify_only,
        )
        return AddPartitionsToTxnResult(
            transactional_id=each.transactional_id,
            topic_results=await _topics(codes),
        )

    # Side by side, as each may wait for replicas.
    results = await side_by_side(answer, request.transactions)
    return AddPartitionsToTxnResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(results),
    )


async def _add(
    context: RequestContext,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: Iterable[AddPartitionsToTxnTopic],
    *,
    client_version: int,
    verify_only: bool = False,
) -> Codes:
    wanted, refused = await _sort(context, transactional_id, topics)
    if refused:
        return refused
    codes = await context.broker.transactions.add_partitions(
        transactional_id,
        producer_id,
        producer_epoch,
        wanted,
        verify_only=verify_only,
        client_version=client_version,
    )
    told = []
    for each, code in codes.items():
        is_unknown = code is ErrorCode.producer_fenced and context.version < _FENCED_FROM
        told.append((each, ErrorCode.invalid_producer_epoch if is_unknown else code))
        await give_way()
    return told


async def _sort(
    context: RequestContext, transactional_id: str, topics: Iterable[AddPartitionsToTxnTopic]
) -> tuple[list[TopicPartition], Codes]:
    """The partitions to add, each once; or the codes to answer if none may be added."""
    has_partition = context.broker.metadata.image.has_partition_of
    refused = await _refused(context, transactional_id, topics)
    named = await counted((topic.name, index) for topic in topics for index in topic.partitions)
    codes: list[ErrorCode] = []
    is_refused = False
    for name, index in named:
        code = refused.get(name, ErrorCode.none)
        if code is ErrorCode.none and not has_partition(name, index):
            code = ErrorCode.unknown_topic_or_partition
        is_refused = is_refused or code is not ErrorCode.none
        codes.append(code)
        await give_way()
    return ([], await _not_added(named, codes)) if is_refused else (list(named), [])


async def _refused(
    context: RequestContext, transactional_id: str, topics: Iterable[AddPartitionsToTxnTopic]
) -> dict[str, ErrorCode]:
    """The topics that the producer may not add, with the reason."""
    refused: dict[str, ErrorCode] = {}
    if context.version >= _BROKERS_FROM:
        return refused
    is_own = context.may(Operation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id)
    for name in await counted(topic.name for topic in topics):
        if not is_own:
            refused[name] = DENIED[Kind.TRANSACTIONAL_ID]
        elif name in INTERNAL_TOPICS or not context.may(Operation.WRITE, Kind.TOPIC, name):
            refused[name] = DENIED[Kind.TOPIC]
        await give_way()
    return refused


async def _not_added(named: Iterable[TopicPartition], codes: list[ErrorCode]) -> Codes:
    """The codes if some partitions are refused: the others are not attempted."""
    told: Codes = []
    for each, code in zip(named, codes, strict=True):
        told.append((each, ErrorCode.operation_not_attempted if code is ErrorCode.none else code))
        await give_way()
    return told


async def _respond(codes: Codes) -> AddPartitionsToTxnResponse:
    topics = await _topics(codes)
    return AddPartitionsToTxnResponse(throttle_time=ZERO, results_by_topic_v3_and_below=topics)


async def _topics(codes: Codes) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in codes:
        by_topic.setdefault(topic, []).append(
            AddPartitionsToTxnPartitionResult(
                partition_index=index,
                partition_error_code=code,
            )
        )
        await give_way()
    topics = []
    for name, results in by_topic.items():
        told = settled(tuple(results))
        topics.append(AddPartitionsToTxnTopicResult(name=name, results_by_partition=told))
        await give_way()
    return settled(tuple(topics))
