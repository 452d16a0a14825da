"""DescribeLogDirs (key 35), versions 1-5: the partitions of each log dir, and the space left.

A null list of topics means all. A partition that is moving to another dir is listed in both: in the
new one as a "future" replica, with its lag. An offline dir has the code KAFKA_STORAGE_ERROR.

Version notes: 3 adds a top-level error code; 4 adds the sizes of the volume (KIP-827); 5 adds a
flag for dirs in `cordoned.log.dirs` (KIP-1066).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_UNKNOWN_BYTES: Final = -1

#: Requested partitions by topic.
_Wanted = dict[str, set[int]]


async def handle(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    if not context.may_cluster(Operation.DESCRIBE):
        code = ErrorCode.cluster_authorization_failed
        return DescribeLogDirsResponse(throttle_time=ZERO, error_code=code, results=())
    directories = context.broker.logs.directories
    volumes = [await _volume(context, directory) for directory in directories]
    return await _respond(context, request, dict(zip(directories, volumes, strict=True)))


async def _volume(context: RequestContext, directory: LogDirectory) -> os.statvfs_result | None:
    """The size and free space of the dir's volume; None if the dir cannot be reached."""
    if not directory.is_online:
        return None
    try:
        return await context.broker.threads.reading(os.statvfs, directory.path)
    except OSError:
        return None


async def _respond(
    context: RequestContext,
    request: DescribeLogDirsRequest,
    volumes: Mapping[LogDirectory, os.statvfs_result | None],
) -> DescribeLogDirsResponse:
    logs = context.broker.logs
    wanted: _Wanted | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
            await give_way()
    found: dict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]] = {
        each: {} for each in volumes
    }
    for log in list(context.broker.logs):
        await give_way()
        if wanted is not None and log.partition not in wanted.get(log.topic, ()):
            continue
        found[log.log_directory].setdefault(log.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size=log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
        )
    for move in context.broker.log_moves:
        if wanted is None or move.partition in wanted.get(move.topic, ()):
            found[move.directory].setdefault(move.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=move.partition,
                    partition_size=move.copied_bytes,
                    offset_lag=move.offset_lag,
                    is_future_key=True,
                )
            )
        await give_way()
    results = []
    for each in volumes:
        result = await _result(each, volumes[each], found[each], is_cordoned=logs.is_cordoned(each))
        results.append(result)
    return DescribeLogDirsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results=tuple(results),
    )


async def _result(
    directory: LogDirectory,
    volume: os.statvfs_result | None,
    topics: Mapping[str, Sequence[DescribeLogDirsPartition]],
    *,
    is_cordoned: bool,
) -> DescribeLogDirsResult:
    told = []
    for name, partitions in topics.items():
        told.append(DescribeLogDirsTopic(name=name, partitions=tuple(partitions)))
        await give_way()
    return DescribeLogDirsResult(
        error_code=ErrorCode.none if volume else ErrorCode.kafka_storage_error,
        log_dir=directory.path,
        topics=tuple(told) if directory.is_online else (),
        total_bytes=volume.f_frsize * volume.f_blocks if volume else _UNKNOWN_BYTES,
        usable_bytes=volume.f_frsize * volume.f_bavail if volume else _UNKNOWN_BYTES,
        is_cordoned=is_cordoned,
    )
