"""AlterReplicaLogDirs (key 34), versions 1-2: move replicas between log dirs (KIP-113).

Replicas and log dirs are those of this broker. The request is answered when the moves have begun;
DescribeLogDirs shows their progress. If this broker does not have the partition yet, its log will
be created in the named dir; the code is REPLICA_NOT_AVAILABLE.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    may = context.may_cluster(Operation.ALTER)
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for wanted in request.dirs:
        for topic in wanted.topics:
            told = results.setdefault(topic.name, [])
            for index in topic.partitions:
                code = ErrorCode.cluster_authorization_failed
                if may:
                    code = _move(context, wanted.path, topic.name, index)
                told.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
                await give_way()
            await give_way()
    topics = []
    for name, partitions in results.items():
        topics.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(partitions)))
        await give_way()
    return AlterReplicaLogDirsResponse(throttle_time=ZERO, results=tuple(topics))


def _move(context: RequestContext, path: str, topic: str, index: int) -> ErrorCode:
    broker = context.broker
    logs = broker.logs
    directory = next((each for each in logs.directories if each.path == path), None)
    if directory is None:
        return ErrorCode.log_dir_not_found
    if not directory.is_online or broker.partitions.is_offline(topic, index):
        return ErrorCode.kafka_storage_error
    log = logs.get(topic, index)
    if log is None or not broker.partitions.has_log_of(topic, index):
        if broker.metadata.image.has_partition_of(topic, index):
            logs.wanted_places[topic, index] = directory
        return ErrorCode.replica_not_available
    broker.log_moves.begin(log, directory)
    return ErrorCode.none
