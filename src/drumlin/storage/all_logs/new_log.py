"""Creating the folder of a new partition, atomically: after an error nothing is left of it."""

from __future__ import annotations

import contextlib
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.storage.directory import partition_metadata
from drumlin.storage.directory.log_directory import LogDirectory, storage_error
from drumlin.storage.files.partition_names import directory_name
from drumlin.storage.log import swap_plan
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_list import SegmentList


def new_log(
    directory: LogDirectory, topic: str, partition: int, topic_id: UUID, config: LogConfig
) -> PartitionLog:
    """Create an empty log in a new folder.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    path = f"{directory.path}/{directory_name(topic, partition)}"
    if directory.files.exists(path):
        raise storage_error(f"{path} is there, but could not be loaded")
    try:
        # Checkpoints of an earlier topic with this name must not apply to the new log.
        directory.recovery_points.lower((topic, partition), 0)
        directory.log_start_offsets.lower((topic, partition), 0)
        directory.cleaner_offsets.lower((topic, partition), 0)
        directory.kept_deletions.lower((topic, partition), 0)
        directory.files.make_directory(path)
        now_ms = directory.clock.wall_ms()
        segment = Segment.create(path, 0, directory.open_files, now_ms)
        directory.files.remove(f"{path}/{swap_plan.FILE_NAME}")
        segments = SegmentList([segment])
        log = PartitionLog(directory, path, topic, partition, topic_id, config, segments)
        log.write_topic_id(topic_id)
    except BaseException as error:
        _undo(directory, path, (topic, partition))
        if isinstance(error, OSError):
            raise directory.fail(error, f"create {path}") from error
        raise
    directory.note_in_order((topic, partition))
    return log


def _undo(directory: LogDirectory, path: str, key: tuple[str, int]) -> None:
    """Remove the files by their names, as listing the folder might fail for lack of descriptors."""
    files = directory.files
    with contextlib.suppress(OSError):
        for file in Segment(path, 0, directory.open_files, 0).all_files():
            files.remove(file.path)
        files.remove(f"{path}/{partition_metadata.FILE_NAME}")
        files.remove_empty_directory(path)
    if files.exists(path):
        directory.not_loaded.add(key)  # an empty log, which the broker will try to load
