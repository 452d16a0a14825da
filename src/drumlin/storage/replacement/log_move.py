"""Moving a log to another log dir: copies its files while it is in use, then changes over.

    begin, copy   a thread            copies into `topic-partition.<hex>-future`, as Apache Kafka
    complete      a thread            copies the rest, while the log is paused and its files may
                                      not change
    adopt         the log's thread    old folder -> `-delete`, new folder -> the log's name
    conclude      a thread            makes the names durable

A crash leaves one complete log. From `complete` on, a marker in the new folder makes it the valid
one, and `moved_folders.py` completes the move at the next start. Before that, the new folder is
removed.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from typing import Final

from drumlin.storage.directory import partition_metadata
from drumlin.storage.directory.log_directory import LogDirectory, storage_error
from drumlin.storage.files import folder_marker
from drumlin.storage.files.partition_names import (
    deleted_directory_name,
    directory_name,
    future_directory_name,
)
from drumlin.storage.log import leader_epochs
from drumlin.storage.log.durability import Durability
from drumlin.storage.log.file_names import offset_of
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_files import LOG_SUFFIX, file_prefix
from drumlin.storage.segment.segment_list import SegmentList
from drumlin.storage.segment.time_index import TimeIndex
from drumlin.storage.segment.transaction_index import TransactionIndex

_CHUNK_BYTES: Final = 1 << 20
_WHOLE: Final = 1 << 62


class LogMove:
    """One move. The blocking steps raise `OSError` or `KafkaError`; then `abandon` must follow."""

    def __init__(self, log: PartitionLog, directory: LogDirectory) -> None:
        self.log = log
        self.topic, self.partition = log.topic, log.partition
        self.directory = directory
        self.path = f"{directory.path}/{future_directory_name(log.topic, log.partition)}"
        #: The new name of the old folder, after `adopt`.
        self.left_path: str | None = None
        self._files = directory.files
        self._source = log.log_directory
        self._truncations = log.truncations
        self._lacks_from: int | None = log.log_start_offset
        self.copied_bytes = 0
        self._copied: dict[Segment, int] = {}
        self._ended: set[Segment] = set()  # sealed segments that are copied, with indexes
        self._segments: list[Segment] = []  # the new segments
        self._durability = log.durability
        #: Whether the new folder may be valid after a crash.
        self._is_marked = False
        #: Whether this is the log's only folder, which the next start must find.
        self._is_last = False

    @property
    def offset_lag(self) -> int:
        """The number of offsets by which the copy is behind, in whole segments."""
        lacking = self._lacks_from
        return 0 if lacking is None else max(0, self.log.log_end_offset - lacking)

    # -- copying ---------------------------------------------------------------------------

    def begin(self) -> None:
        self._check()
        self._files.make_directory(self.path)

    def copy(self, most: int) -> int:
        """Copy up to `most` bytes of batches; returns the bytes, 0 if nothing is left for now."""
        self._check()
        if self.log.truncations != self._truncations:
            self._start_over()
        segments = self.log.segments.snapshot()
        self._drop(self._copied.keys() - set(segments))
        copied = 0
        for segment in segments:
            with contextlib.suppress(FileNotFoundError):  # the segment was deleted meanwhile
                copied += self._copy_batches(segment, most - copied)
                if segment is not segments[-1] and self._copied[segment] == segment.size:
                    self._end(segment)
            if copied >= most:
                break
        self.copied_bytes = sum(self._copied.values())
        lacking = (each for each in segments if self._copied.get(each, 0) < each.size)
        self._lacks_from = next((each.base_offset for each in lacking), None)
        return copied

    def _check(self) -> None:
        if self.log.is_deleted:
            raise storage_error(f"{self.log.name} was deleted")
        self.directory.check_writable()
        self._source.check_readable()

    def _start_over(self) -> None:
        """Discard the copied segments, as the log was truncated."""
        self._truncations = self.log.truncations
        self._drop(list(self._copied))

    def _drop(self, gone: Sequence[Segment] | set[Segment]) -> None:
        for segment in gone:
            self._copied.pop(segment)
            self._ended.discard(segment)
            for suffix in _SUFFIXES:  # by name, as the segment's files may have been renamed
                self._files.remove(f"{self.path}/{file_prefix(segment.base_offset)}{suffix}")

    def _copy_of(self, path: str) -> str:
        return f"{self.path}/{path.rpartition('/')[2]}"

    def _copy_batches(self, segment: Segment, most: int) -> int:
        begin = self._copied.get(segment, 0)
        end = min(segment.size, begin + most)
        target = self._copy_of(segment.log_file.path)
        if segment not in self._copied:
            self._files.create(target)
            self._copied[segment] = 0
        if begin < end:
            with segment.log_file as source:
                self._copy_bytes(source, target, begin, end)
            self._copied[segment] = end
        return end - begin

    def _copy_bytes(self, source: int, target: str, begin: int, end: int) -> None:
        files = self._files
        descriptor = files.open(target)
        try:
            for position in range(begin, end, _CHUNK_BYTES):
                length = min(_CHUNK_BYTES, end - position)
                data = files.read_at(source, length, position)
                files.write_at(descriptor, data, position)
                if len(data) < length:
                    raise storage_error(f"{self.log.name} ends before {end}")
        finally:
            files.close(descriptor)

    def _end(self, segment: Segment) -> None:
        """Copy the indexes of a segment without further batches, and make its files durable."""
        if segment in self._ended:
            return
        files = self._files
        target = self._copy_of(segment.log_file.path)
        with segment.log_file as source:
            modified_ms = files.modified_ms(source)
        descriptor = files.open(target)
        try:
            files.truncate(descriptor, segment.size)
            files.set_modified_ms(descriptor, modified_ms)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        for file in segment.all_files()[1:]:
            if files.exists(file.path):  # not every segment has a transaction index
                self._copy_file(file.path)
        self._ended.add(segment)

    def _copy_file(self, path: str) -> None:
        target = self._copy_of(path)
        self._files.write_file(target, self._files.read_file(path))
        self._files.sync_file(target)

    # -- the change-over ---------------------------------------------------------------------

    def complete(self) -> None:
        """Copy the rest, durably. The log is paused: `is_moving`."""
        log = self.log
        assert log.is_moving
        with log.swaps.lock, log.durability.lock:
            log.swaps.settle()
            log.segments.active.rest()
            log.flush()  # so that the old folder is complete, too, if this fails
            self.copy(_WHOLE)
            self._end(log.segments.active)
            if self._ended != set(log.segments):
                raise storage_error(f"{log.name} has changed meanwhile")
            for name in self._files.list_directory(log.path):
                if name in _OTHER_FILES or offset_of(name, SNAPSHOT_SUFFIX) is not None:
                    self._copy_file(f"{log.path}/{name}")
            self._note_checkpoints()
            self._segments = self._open_copies()
            self._durability = Durability(self._final_path, self._files)
            self._durability.recovery_point = log.recovery_point
            self._check()
            self._files.sync_directory(self._source.path)
            # First, so that the old folder is not used while the new log dir is offline.
            folder_marker.announce_leaving(log.path, log.topic_id, self._files)
            folder_marker.unmark(log.path, self._files)  # the marker of an earlier move
            self._is_marked = (
                True  # set first, as the marker may have been written even after an error
            )
            folder_marker.mark(self.path, log.topic, log.partition, self._files)

    @property
    def _final_path(self) -> str:
        return f"{self.directory.path}/{directory_name(self.log.topic, self.log.partition)}"

    def _note_checkpoints(self) -> None:
        """Write the checkpoints of the log in the new log dir, for a start after a crash."""
        log, directory, key = self.log, self.directory, (self.log.topic, self.log.partition)
        directory.not_loaded.add(key)  # keeps the checkpoints before the log is there
        clean_up_to = self._source.cleaner_offsets.get(key)
        horizon_ms = self._source.delete_horizons.get(key)
        for checkpoint, offset in (
            (directory.kept_deletions, log.deletions_kept_after_crash),
            (directory.recovery_points, log.recovery_point),
            (directory.log_start_offsets, log.log_start_offset),
            (directory.high_watermarks, log.high_watermark),
            (directory.delete_horizons, horizon_ms or 0),  # 0, if unknown: cleaned at once
            (directory.cleaner_offsets, clean_up_to or 0),
        ):
            checkpoint.set(key, offset, only_if=lambda: not log.is_deleted)

    def _open_copies(self) -> list[Segment]:
        copies = []
        for each in self.log.segments:
            copy = Segment(self.path, each.base_offset, self._source.open_files, each.created_ms)
            copy.size = each.size
            if not self._files.exists(copy.transaction_index.file.path):
                copy.transaction_index.know(())
            copies.append(copy)
        active = copies[-1]
        if active.sound_end_offset() != self.log.log_end_offset:
            raise storage_error(f"{self.log.name}: the copy in {self.path} is incomplete")
        for index in (active.offset_index, active.time_index, active.transaction_index):
            index.load()
        _ = active.first_timestamp, active.largest_timestamp  # for the next append
        return copies

    def adopt(self) -> None:
        """Switch the log to its copy, on the log's thread. After an error nothing has changed."""
        log, source = self.log, self._source
        self._check()
        left_path = f"{source.path}/{deleted_directory_name(log.topic, log.partition)}"
        log.durability.give_up()
        try:
            self._rename(left_path)
        except OSError:
            log.durability = Durability(log.path, self._files)  # the copy is durable already
            log.durability.recovery_point = self._durability.recovery_point
            raise
        before = log.segments.snapshot()
        log.path, log.log_directory = self._final_path, self.directory
        log.segments = SegmentList(self._segments)
        log.durability = self._durability
        log.leader_epochs.unsaved.note()
        log.truncations += 1  # all segments are new objects
        log.is_moving = False
        for segment in before:
            segment.discard()
        self.left_path = left_path
        self.directory.note_in_order((log.topic, log.partition))

    def _rename(self, left_path: str) -> None:
        """Rename both folders, and the open files in them."""
        log, open_files = self.log, self._source.open_files
        old_files = [file for segment in log.segments for file in segment.all_files()]
        new_files = [file for segment in self._segments for file in segment.all_files()]
        open_files.rename_folder(log.path, left_path, old_files)
        try:
            open_files.rename_folder(self.path, self._final_path, new_files)
        except OSError:
            try:
                open_files.rename_folder(left_path, log.path, old_files)
            except OSError as error:  # can't be undone: the next start finds the copy
                self._is_last = True
                self._source.fail(OSError(errno.EIO, str(error)), f"rename {left_path}")
            raise

    def conclude(self) -> None:
        """Make the new names durable, after which the old folder may be removed."""
        self._files.sync_directory(self.directory.path)
        self._files.sync_directory(self._source.path)
        folder_marker.unmark(self._final_path, self._files)

    def abandon(self) -> None:
        """Keep the log where it is, and remove the copy. Not after `adopt`."""
        if self._is_last:
            return
        self.directory.not_loaded.discard((self.log.topic, self.log.partition))
        try:
            folder_marker.unmark(self.path, self._files)  # first: a partial copy must not be valid
            self._files.remove_directory(self.path)
        except OSError:
            self.directory.leave(self.path)
            if self._is_marked and not self.log.is_deleted:  # the log is served without its copy
                folder_marker.mark(self.log.path, self.log.topic, self.log.partition, self._files)
            raise
        finally:
            if not self.log.is_deleted:
                folder_marker.cancel_leaving(self.log.path, self._files)


_SUFFIXES: Final = (
    LOG_SUFFIX,
    OffsetIndex.SUFFIX,
    TimeIndex.SUFFIX,
    TransactionIndex.SUFFIX,
)
_OTHER_FILES: Final = (leader_epochs.FILE_NAME, partition_metadata.FILE_NAME)
