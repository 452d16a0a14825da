"""Read-only access to the logs of a log dir, while no broker uses it. Never changes a file.

Unlike `recovery.py`, this file recovers and completes nothing: a log that needs recovery is an
error.
A log opened here must not be appended to, nor cleaned.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import NoReturn
from uuid import UUID

from drumlin.clock import Clock
from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import Buffer
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.files.files import Files
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.log.file_names import log_foreign_files, parse_file_name
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.producer_replay import OFFSET_MAX, follow_segment, load_snapshot_up_to
from drumlin.storage.log.swap_plan import FILE_NAME as SWAP_PLAN
from drumlin.storage.log.swap_plan import SWAP_SUFFIX
from drumlin.storage.recovery.loader import partitions_in
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_files import LOG_SUFFIX
from drumlin.storage.segment.segment_list import SegmentList


class ReadOnlyFiles(Files):
    """Files that can only be read: calls that would change something raise `OSError` (EROFS)."""

    def open(self, path: str, *, create: bool = False) -> int:
        if create:
            _refuse(path)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def create(self, path: str) -> None:
        _refuse(path)

    def set_modified_ms(self, descriptor: int, modified_ms: int) -> None:
        _refuse(None)

    def write_at(self, descriptor: int, data: Buffer, position: int) -> None:
        _refuse(None)

    def truncate(self, descriptor: int, size: int) -> None:
        _refuse(None)

    def set_aside(self, descriptor: int, position: int, length: int) -> None:
        _refuse(None)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def remove(self, path: str) -> None:
        _refuse(path)

    def make_directory(self, path: str) -> None:
        _refuse(path)

    def remove_directory(self, path: str) -> None:
        _refuse(path)


def _refuse(path: str | None) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def open_read_only(path: str, clock: Clock) -> LogDirectory:
    """Open a log dir for reading."""
    return LogDirectory(path, OpenFiles(ReadOnlyFiles()), clock)


def partitions_of(directory: LogDirectory) -> Iterator[tuple[str, int]]:
    """Topics and partitions with a folder in a log dir, sorted.

    Raises:
        OSError: the log dir cannot be listed.
    """
    yield from sorted(partitions_in(directory))


def look_at_log(
    directory: LogDirectory, topic: str, partition: int, config: LogConfig
) -> PartitionLog:
    """Open one log with the files that its folder has now.

    Raises:
        OSError: the folder cannot be read.
        ValueError: there is no segment, or a broker has to start first to complete a swap.
    """
    path, files = f"{directory.path}/{topic}-{partition}", directory.files
    names = files.list_directory(path)
    found = [each for each in map(parse_file_name, names) if each is not None]
    if SWAP_PLAN in names or any(each.state == SWAP_SUFFIX for each in found):
        raise ValueError(f"a cleaning of {topic}-{partition} is completed by the next start")
    log_foreign_files(path, names)
    segments = []
    for base_offset, *kind in found:
        if kind == [LOG_SUFFIX, ""]:
            segment = Segment(path, base_offset, directory.open_files, directory.clock.wall_ms())
            segment.size = files.size_of(segment.log_file.path)
            segments.append(segment)
    if not segments:
        raise ValueError(f"{path} has no segments")
    no_id = UUID(int=0)
    log = PartitionLog(directory, path, topic, partition, no_id, config, SegmentList(segments))
    known_start = directory.log_start_offsets.get((topic, partition)) or 0
    log.log_start_offset = max(known_start, log.segments.first.base_offset)
    _follow_producers(log)
    log.log_end_offset = max(log.producer_state.end_offset, log.segments.active.base_offset)
    return log


def _follow_producers(log: PartitionLog) -> None:
    state, files = log.producer_state, log.log_directory.files
    load_snapshot_up_to(OFFSET_MAX, state, log.path, files, log.log_start_offset)
    for segment in log.segments.from_offset(state.end_offset):
        follow_segment(state, segment)
