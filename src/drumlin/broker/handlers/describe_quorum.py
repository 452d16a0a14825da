"""DescribeQuorum (key 55), versions 0-2: the quorum that owns the metadata (KIP-595).

There is no quorum here and no metadata log: ZooKeeper or a single process keeps the metadata.
Programs get an answer nevertheless: the controller is the leader and the only voter, in the epoch
of its election, and all other live brokers are observers. Offsets and times are -1, which means
unknown in the protocol.

Version notes: 1 adds times; 2 adds messages, directory ids, and the voters' listeners, which do not
exist here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.metadata.image import NO_LEADER, ClusterImage
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

_TOPIC: Final = "__cluster_metadata"
_UNKNOWN: Final = -1


async def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    context.require_cluster(Operation.DESCRIBE)
    image = context.broker.metadata.image
    asked = [
        (each.topic_name, [part.partition_index for part in each.partitions[:2]])
        for each in request.topics[:2]
    ]
    is_known = asked == [(_TOPIC, [0])]
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            told = _quorum(image) if is_known else _no_partition(each.partition_index)
            partitions.append(told)
            await give_way()
        topics.append(TopicData(topic_name=topic.topic_name, partitions=tuple(partitions)))
        await give_way()
    has_controller = is_known and image.controller_id != NO_LEADER
    nodes = (Node(node_id=image.controller_id, listeners=()),) if has_controller else ()
    return DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(topics),
        nodes=nodes,
    )


def _quorum(image: ClusterImage) -> PartitionData:
    controller_id = image.controller_id
    has_controller = controller_id != NO_LEADER
    return PartitionData(
        partition_index=0,
        error_code=ErrorCode.none if has_controller else ErrorCode.not_leader_or_follower,
        error_message="" if has_controller else "there is no controller now",
        leader_id=controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=_UNKNOWN,
        current_voters=_states([controller_id] if has_controller else []),
        observers=_states(sorted(image.brokers.keys() - {controller_id})),
    )


def _states(broker_ids: Iterable[int]) -> tuple[ReplicaState, ...]:
    return tuple(
        ReplicaState(
            replica_id=each,
            replica_directory_id=None,
            log_end_offset=_UNKNOWN,
            last_fetch_timestamp=_UNKNOWN,
            last_caught_up_timestamp=_UNKNOWN,
        )
        for each in broker_ids
    )


def _no_partition(index: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.unknown_topic_or_partition,
        error_message=f"only partition 0 of {_TOPIC} has a quorum, and is asked for by itself",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )
