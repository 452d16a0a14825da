"""DescribeProducers (key 61), version 0: a partition's producers and their open transactions.

Used to find hanging transactions (kafka-transactions.sh find-hanging). Followers answer, too. Each
named partition is answered once, in the order of the request.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.metadata.names import check_topic_name
from drumlin.storage.producers.producer_entry import ProducerEntry
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_NO_TRANSACTION: Final = -1


async def handle(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    topics = []
    answered: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = []
        may = context.may(Operation.READ, Kind.TOPIC, topic.name)
        for index in topic.partition_indexes:
            await give_way()
            if (topic.name, index) in answered:
                continue
            answered.add((topic.name, index))
            partitions.append(await _partition(context, topic.name, index, may=may))
        topics.append(TopicResponse(name=topic.name, partitions=tuple(partitions)))
        await give_way()
    return DescribeProducersResponse(throttle_time=ZERO, topics=tuple(topics))


async def _partition(
    context: RequestContext, topic: str, index: int, *, may: bool
) -> PartitionResponse:
    code, message = ErrorCode.none, None
    producers: list[ProducerState] = []
    try:
        check_topic_name(topic)
        if not may:
            raise denied(Kind.TOPIC)
        if topic not in context.broker.metadata.image.topics:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no topic {topic}")
        partitions = context.broker.partitions
        replica = partitions.find_followed(topic, index) or partitions.get(topic, index)
        replica.check_readable()
        for entry in replica.active_producers():
            producers.append(_producer(entry))
            await give_way()
    except KafkaError as error:
        code, message = error.code, error.message
    return PartitionResponse(
        partition_index=index,
        error_code=code,
        error_message=message,
        active_producers=tuple(producers),
    )


def _producer(entry: ProducerEntry) -> ProducerState:
    first_offset = entry.transaction_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=_NO_TRANSACTION if first_offset is None else first_offset,
    )
