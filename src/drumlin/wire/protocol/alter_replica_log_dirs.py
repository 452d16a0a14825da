"""AlterReplicaLogDirs (key 34), versions 1 to 2."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class AlterReplicaLogDirTopic:
    name: str
    partitions: tuple[Int32, ...] = ()


@message
class AlterReplicaLogDir:
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


@message
class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]


@message
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: ErrorCode


@message
class AlterReplicaLogDirTopicResult:
    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message
class AlterReplicaLogDirsResponse:
    throttle_time: Milliseconds32
    results: tuple[AlterReplicaLogDirTopicResult, ...]
