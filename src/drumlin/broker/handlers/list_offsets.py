"""ListOffsets (key 2), versions 1-11: the offset for a timestamp, or a special one.

    -1 latest (the last stable offset for READ_COMMITTED)   -2 earliest
    -3 the offset of the largest timestamp (7+, KIP-734)
    -4 earliest local (8+, KIP-405)  -5 latest tiered (9+, KIP-1005)
    -6 earliest pending upload (11+, KIP-1023)
    -1146246477 exact from (4+, Drumlin's own: see `wire/exact_from.py`)

There is no tiered storage yet: -4 means the same as -2, and the answers to -5 and -6 are unknown.
A partition named twice in one request is INVALID_REQUEST, as in Apache Kafka. A client that sends a
replica id without the right to be a replica gets a consumer's answer, with offsets up to the high
watermark; Kafka does not check this.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, NamedTuple

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.replication.partition import Partition
from drumlin.turns import give_way, to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.exact_from import EXACT_FROM, EXACT_FROM_VERSION_MIN
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE_KIP_207: Final = 5
#: Special timestamps that are answered from memory.
_KNOWN: Final = (
    *(_LATEST, _EARLIEST, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD),
    EXACT_FROM,
)
_SINCE_VERSION: Final = {
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
    EXACT_FROM: EXACT_FROM_VERSION_MIN,
}


#: The request for each partition of each topic; None where a partition is named more than once.
_Asked = Mapping[str, Mapping[int, "ListOffsetsPartition | None"]]
_AT_ONCE: Final = 1000


class _Found(NamedTuple):
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


_NOTHING: Final = _Found()


async def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    # Each topic and partition is answered once, however often it is named.
    asked: dict[str, dict[int, ListOffsetsPartition | None]] = {}
    denied: set[str] = set()
    is_known = True
    for topic in request.topics:
        of_topic = asked.setdefault(topic.name, {}) if topic.partitions else {}
        may = context.may(Operation.DESCRIBE, Kind.TOPIC, topic.name)
        if not may:
            denied.add(topic.name)
        for first in range(0, max(1, len(topic.partitions)), _AT_ONCE):
            for part in topic.partitions[first : first + _AT_ONCE]:
                index = part.partition_index
                of_topic[index] = None if index in of_topic else part
                is_known = is_known and part.timestamp in _KNOWN
                if may and part.timestamp == EXACT_FROM:
                    _settle(context, topic.name, index)
            await give_way()
    is_follower = request.replica_id >= 0 and context.may_cluster(Operation.CLUSTER_ACTION)
    work = _respond(context, request.isolation_level, asked, denied, is_follower=is_follower)
    if is_known:
        return await work
    # Searching by time reads the log and changes nothing, so it may run in a thread.
    return await context.broker.threads.reading(to_end, work)


def _settle(context: RequestContext, topic: str, index: int) -> None:
    """Do the part that must run on the loop; the rest may run in a thread."""
    partition = context.broker.partitions.find(topic, index)
    if partition is not None:
        partition.settle_exact_states()


async def _respond(
    context: RequestContext,
    isolation_level: int,
    asked: _Asked,
    denied: Container[str],
    *,
    is_follower: bool,
) -> ListOffsetsResponse:
    topics = []
    for name, parts in asked.items():
        is_denied = name in denied
        answers = []
        for index, part in parts.items():
            code, found = ErrorCode.invalid_request, _NOTHING
            if is_denied:
                code = ErrorCode.topic_authorization_failed
            elif part is not None:
                code, found = _look_up(
                    context, name, part, isolation_level, is_follower=is_follower
                )
            answers.append(
                ListOffsetsPartitionResponse(
                    partition_index=index,
                    error_code=code,
                    timestamp=found.timestamp,
                    offset=found.offset,
                    leader_epoch=found.leader_epoch,
                )
            )
            await give_way()
        topics.append(ListOffsetsTopicResponse(name=name, partitions=tuple(answers)))
    return ListOffsetsResponse(throttle_time=ZERO, topics=tuple(topics))


def _look_up(
    context: RequestContext,
    topic: str,
    part: ListOffsetsPartition,
    isolation_level: int,
    *,
    is_follower: bool,
) -> tuple[ErrorCode, _Found]:
    try:
        _check_version(context.version, part.timestamp)
        partition = context.broker.partitions.get(
            topic, part.partition_index, part.current_leader_epoch
        )
        partition.check_readable()
        if is_follower:
            end_offset = partition.log_end_offset
        else:
            end_offset = partition.readable_end_offset(isolation_level)
        found = _find(partition, part.timestamp, end_offset)
        if not is_follower and _depends_on_end(part.timestamp, found):
            partition.check_latest_is_known()
        return ErrorCode.none, found
    except KafkaError as error:
        return _told(error.code, context.version), _NOTHING


def _depends_on_end(timestamp: int, found: _Found) -> bool:
    """Whether the answer may change when the high watermark advances."""
    return timestamp == _LATEST or (timestamp not in _KNOWN and found == _NOTHING)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """The code to answer with: older versions do not know OFFSET_NOT_AVAILABLE (KIP-207)."""
    if code is ErrorCode.offset_not_available and version < _SINCE_KIP_207:
        return ErrorCode.leader_not_available
    return code


def _check_version(version: int, timestamp: int) -> None:
    if timestamp < _EARLIEST and version < _SINCE_VERSION.get(timestamp, 2**15):
        raise KafkaError(ErrorCode.unsupported_version)


def _find(partition: Partition, timestamp: int, end_offset: int) -> _Found:
    if timestamp == _LATEST:
        return _Found(end_offset, -1, partition.leader_epoch)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        offset = partition.log_start_offset
        return _Found(offset, -1, partition.epoch_for(offset))
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return _Found()
    if timestamp == EXACT_FROM:
        drops = partition.deletion_drops
        return _Found(partition.exact_from, EXACT_FROM - drops, partition.leader_epoch)
    if timestamp == _MAX_TIMESTAMP:
        found = partition.max_timestamp_offset()
    else:
        found = partition.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end_offset:
        return _Found()
    return _Found(found.offset, found.timestamp, found.leader_epoch)
