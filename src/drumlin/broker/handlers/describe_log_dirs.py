"""DescribeLogDirs (key 35), versions 1-5: what lies in which log dir, and how much room is left.

A null list of topics means all. A dir that is offline is answered KAFKA_STORAGE_ERROR.

Version notes: 3 adds an error code on top; 4 adds the sizes of the volume (KIP-827); 5 adds
whether the dir is cordoned, which none is.
"""

from __future__ import annotations

import os
from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.storage.log_directory import LogDirectory
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import ZERO, Shape

_UNKNOWN_BYTES: Final = -1

#: Topic -> partitions asked for.
_Wanted = dict[str, set[int]]


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    wanted: _Wanted | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
    results = [
        await _result(context, shape, directory, wanted)
        for directory in context.broker.logs.directories
    ]
    return shape(
        "DescribeLogDirsResponse",
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results=tuple(results),
    )


async def _result(
    context: RequestContext, shape: Shape, directory: LogDirectory, wanted: _Wanted | None
) -> Any:
    code, total_bytes, usable_bytes = ErrorCode.none, _UNKNOWN_BYTES, _UNKNOWN_BYTES
    topics: tuple[Any, ...] = ()
    if directory.is_online:
        topics = _topics(context, shape, directory, wanted)
        try:
            volume = await context.broker.threads.reading(os.statvfs, directory.path)
            total_bytes = volume.f_frsize * volume.f_blocks
            usable_bytes = volume.f_frsize * volume.f_bavail
        except OSError:
            code = ErrorCode.kafka_storage_error
    else:
        code = ErrorCode.kafka_storage_error
    return shape(
        "DescribeLogDirsResult",
        error_code=code,
        log_dir=directory.path,
        topics=topics,
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=False,
    )


def _topics(
    context: RequestContext, shape: Shape, directory: LogDirectory, wanted: _Wanted | None
) -> tuple[Any, ...]:
    found: dict[str, list[Any]] = {}
    for log in context.broker.logs:
        if log.log_directory is not directory:
            continue
        if wanted is not None and log.partition not in wanted.get(log.topic, ()):
            continue
        found.setdefault(log.topic, []).append(
            shape(
                "DescribeLogDirsPartition",
                partition_index=log.partition,
                partition_size=log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
        )
    return tuple(
        shape("DescribeLogDirsTopic", name=name, partitions=tuple(partitions))
        for name, partitions in found.items()
    )
