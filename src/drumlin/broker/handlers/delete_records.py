"""DeleteRecords (key 21), versions 0-2: move the log start offset of partitions forward.

-1 means the high watermark. Not for internal topics, and not for topics that are only
compacted. If a partition is named twice, the last offset counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.broker.context import RequestContext
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest
    from kio.schema.delete_records.v2.response import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
    )

_NO_LOW_WATERMARK: Final = -1


def handle(
    context: RequestContext, request: DeleteRecordsRequest, shape: Shape
) -> Work[DeleteRecordsResponse]:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            wanted.setdefault(topic.name, {})[each.partition_index] = each.offset
            yield
    topics = []
    for name, offsets in wanted.items():
        partitions = []
        for index, offset in offsets.items():
            partitions.append(_delete(context, shape, name, index, offset))
            yield
        topics.append(shape("DeleteRecordsTopicResult", name=name, partitions=tuple(partitions)))
        yield
    return shape("DeleteRecordsResponse", throttle_time=ZERO, topics=tuple(topics))


def _delete(
    context: RequestContext, shape: Shape, topic: str, index: int, offset: int
) -> DeleteRecordsPartitionResult:
    low_watermark, code = _NO_LOW_WATERMARK, ErrorCode.none
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.invalid_topic_exception)
        partition = context.broker.partitions.get(topic, index)
        partition.check_readable()
        if "delete" not in partition.config.cleanup_policy:
            raise KafkaError(ErrorCode.policy_violation)
        low_watermark = partition.delete_records_before(offset)
    except KafkaError as error:
        code = error.code
    return shape(
        "DeleteRecordsPartitionResult",
        partition_index=index,
        low_watermark=low_watermark,
        error_code=code,
    )
