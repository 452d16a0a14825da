"""DeleteRecords (key 21), versions 0-2: move the log start offset of partitions forward.

Offset -1 means the high watermark. Internal topics, and topics that are only compacted, are
refused. If a partition is named twice, the last offset counts. The answer waits until the replicas
of all live brokers have deleted the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.replication.partition import Partition
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_NO_LOW_WATERMARK: Final = -1

TopicPartition = tuple[str, int]


async def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        await give_way()
        for each in topic.partitions:
            wanted.setdefault(topic.name, {})[each.partition_index] = each.offset
            await give_way()
    outcomes: dict[TopicPartition, Partition | ErrorCode] = {}
    deleting: dict[TopicPartition, asyncio.Future[None]] = {}
    for name, offsets in wanted.items():
        may = context.may(Operation.DELETE, Kind.TOPIC, name)
        for index, offset in offsets.items():
            if not may:
                outcomes[name, index] = ErrorCode.topic_authorization_failed
                continue
            try:
                partition = outcomes[name, index] = _delete(context, name, index, offset)
                if partition.low_watermark < partition.log_start_offset:
                    deleting[name, index] = partition.deleted_everywhere()
            except KafkaError as error:
                outcomes[name, index] = error.code
            await give_way()
    if deleting:
        await asyncio.wait(deleting.values(), timeout=request.timeout.total_seconds())
        for key, future in deleting.items():
            if not future.done():
                outcomes[key] = ErrorCode.request_timed_out
            elif isinstance(failure := future.exception(), KafkaError):
                outcomes[key] = failure.code
            await give_way()
    return await _respond(wanted, outcomes)


async def _respond(
    wanted: Mapping[str, Iterable[int]],
    outcomes: Mapping[TopicPartition, Partition | ErrorCode],
) -> DeleteRecordsResponse:
    topics = []
    for name, indexes in wanted.items():
        partitions = []
        for index in indexes:
            outcome, code = outcomes[name, index], ErrorCode.none
            low_watermark = _NO_LOW_WATERMARK
            if isinstance(outcome, ErrorCode):
                code = outcome
            else:
                low_watermark = outcome.low_watermark
            partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=index,
                    low_watermark=low_watermark,
                    error_code=code,
                )
            )
            await give_way()
        topics.append(DeleteRecordsTopicResult(name=name, partitions=tuple(partitions)))
        await give_way()
    return DeleteRecordsResponse(throttle_time=ZERO, topics=tuple(topics))


def _delete(context: RequestContext, topic: str, index: int, offset: int) -> Partition:
    """
    Raises:
        KafkaError: nothing is deleted.
    """
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.invalid_topic_exception)
    partition = context.broker.partitions.get(topic, index)
    partition.check_readable()
    if "delete" not in partition.config.cleanup_policy:
        raise KafkaError(ErrorCode.policy_violation)
    partition.delete_records_before(offset)
    return partition
