"""A copy of a log, fetched again while the old log stays, which the complete copy replaces.

    LogCopy       creates an empty log in `topic-partition.<hex>-future`, which the follower fills
    ChangeOver    old folder -> `-delete`, new folder -> the log's name; the log gets its state

Both are carried out in the steps of `LogChange`. A crash leaves one complete log. From `ChangeOver`
on, a marker in the new folder makes it the valid one (`moved_folders.py`); before that, a start
removes it. A copy is dropped when its log is truncated, moved, or loaded again. It must leave free
space on the device, which other logs need.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol

from drumlin.storage.directory.log_directory import storage_error
from drumlin.storage.files import folder_marker
from drumlin.storage.files.files import DEVICE_FULL, out_of_space
from drumlin.storage.files.open_files import LogFile
from drumlin.storage.files.partition_names import (
    deleted_directory_name,
    directory_name,
    future_directory_name,
)
from drumlin.storage.log.durability import Durability
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.recovery.recovery import take_over
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_list import SegmentList
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.exact_from import UNKNOWN_YET

_logger = logging.getLogger(__name__)

#: The copy leaves the size of a segment free or, if less, the size of the device divided by this.
_LEFT_FREE: Final = 20


class LogChange(Protocol):
    """A change of a followed log, in the steps of `truncation.py`."""

    is_cut: bool

    def prepare(self) -> None:
        """Prepare the change. Blocks, in any thread. `cut` or `abandon` must follow."""

    def abandon(self) -> None:
        """Leave the log as it is."""

    def cut(self) -> bool:
        """Make the change, on the log's thread only. False if it has to be prepared again."""

    def rebuild(self) -> None:
        """Do the blocking rest, in any thread."""

    def finish(self) -> None:
        """End the change, on the log's thread only."""


class FreshLog(PartitionLog):
    """The log of a copy. A device without space for it does not count as full for other logs."""

    #: Whether appended records were lost for lack of space, so that the copy has to be dropped.
    has_lost: bool = False

    def _failed(self, error: OSError, attempt: str) -> KafkaError:
        reason = out_of_space(error)
        if reason is None or self.is_deleted:
            return super()._failed(error, attempt)
        if reason is not error:
            self.has_lost = True
        return storage_error(f"no room for a second log of {self.name}: {reason}")

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Start an empty copy elsewhere, without changing the old log's checkpoints."""
        if self.size_bytes:
            raise storage_error(f"the second log of {self.name} has records already")
        with self._failing_as("begin"):
            self._roll(offset, self.log_directory.clock.wall_ms())
        self.log_start_offset = self.log_end_offset = self.producer_state.end_offset = offset


class LogCopy:
    """A copy beside `log`; as a `LogChange`, it creates the copy."""

    def __init__(self, log: PartitionLog, begins_at: int, goal: int) -> None:
        """The copy is complete once it has all records below `goal`, and all committed ones."""
        self.is_cut = False
        self.goal = goal
        self._old = log
        self._begins_at = begins_at
        self._directory, self._truncations = log.log_directory, log.truncations
        self._path = f"{self._directory.path}/{future_directory_name(log.topic, log.partition)}"
        self._log: FreshLog | None = None
        self._is_dropped = False
        #: Held to drop the copy, and by steps on its folder that must not run concurrently.
        self._dropping = threading.Lock()
        self._is_being_made = False
        self._is_marked = False  # whether its folder may be valid after a crash
        #: Whether this is the log's only folder, which the log adopts once its device works again.
        self.is_last = False

    @property
    def log(self) -> FreshLog:
        assert self._log is not None
        return self._log

    @property
    def is_current(self) -> bool:
        """Whether the copy has lost no record, and its log is unchanged since the copy began."""
        has_lost = self._log is not None and self._log.has_lost
        is_same = self._old.truncations == self._truncations
        return is_same and not self._is_dropped and not has_lost

    def has_room_for(self, size: int) -> bool:
        """Whether `size` more bytes may be written.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        directory = self._directory
        try:
            free, total = directory.files.room(directory.path)
        except OSError as error:
            raise directory.fail_log(error, f"look for room in {directory.path}") from error
        kept_free = min(total // _LEFT_FREE, self._old.config.segment_bytes)
        return free - size >= kept_free

    def mark(self) -> None:
        """Mark the copy valid, so that a start after a crash uses it, until it is dropped. Blocks.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the copy was dropped.
            OSError: the marker may have been written.
        """
        log = self.log
        with self._dropping:
            if self._is_dropped:
                raise storage_error(f"the second log of {log.name} is dropped")
            self._is_marked = True
            folder_marker.mark(log.path, log.topic, log.partition, self._directory.files)

    def drop(self) -> None:
        """Drop the copy. Its folder is removed in the background, or by the next start.

        Its marker is removed at once, so that records appended to the old log are safe in a crash.
        """
        with self._dropping:
            self._is_dropped = True
            if self._log is not None:
                self._log.mark_deleted()
            if self.is_last or self._is_being_made:  # the thread that makes it drops it afterwards
                return
            if self._is_marked:
                try:
                    folder_marker.unmark(self._path, self._directory.files)
                except OSError as error:
                    self._directory.fail(error, f"drop {self._path}")
            self._directory.leave(self._path)

    # -- creation, as a LogChange ----------------------------------------------------------

    def prepare(self) -> None:
        self._directory.check_writable()
        with self._dropping:
            if self._is_dropped:
                raise storage_error(f"the second log of {self._old.name} is dropped")
            self._is_being_made = True
        try:
            self._log = self._make()
        finally:
            self._is_being_made = False

    def _make(self) -> FreshLog:
        old, directory = self._old, self._directory
        try:
            directory.files.make_directory(self._path)
            segment = Segment.create(
                self._path, self._begins_at, directory.open_files, directory.clock.wall_ms()
            )
            fresh = FreshLog(
                directory,
                self._path,
                old.topic,
                old.partition,
                old.topic_id,
                old.config,
                SegmentList([segment]),
            )
            fresh.log_start_offset = fresh.log_end_offset = self._begins_at
            fresh.producer_state.end_offset = self._begins_at
            fresh.exact_from = 0 if self._begins_at == 0 else UNKNOWN_YET
            fresh.write_topic_id(old.topic_id)
        except OSError as error:
            if error.errno in DEVICE_FULL:
                raise storage_error(f"no room for a second log of {old.name}: {error}") from error
            raise directory.fail_log(error, f"create {self._path}") from error
        return fresh

    def abandon(self) -> None:
        self.drop()

    def cut(self) -> bool:
        """Start the copy; the old log does not change."""
        self.is_cut = True
        return True

    def rebuild(self) -> None: ...

    def finish(self) -> None: ...


class ChangeOver:
    """Replaces a log by its copy. Nothing may be appended to either of them meanwhile."""

    def __init__(self, log: PartitionLog, copy: LogCopy) -> None:
        self.is_cut = False
        self._log, self._copy, self._fresh = log, copy, copy.log
        self._directory, self._files = log.log_directory, log.log_directory.files
        self._path = f"{self._directory.path}/{directory_name(log.topic, log.partition)}"
        self._left_path = (
            f"{self._directory.path}/{deleted_directory_name(log.topic, log.partition)}"
        )
        self._durability = Durability(self._path, self._files)
        self._concluding = threading.Lock()
        self._is_concluded = False
        log.deletions_kept_beside = self._fresh.deletions_kept_from

    def _check(self) -> None:
        if self._log.is_deleted or not self._copy.is_current:
            raise storage_error(f"{self._log.name} has changed meanwhile")
        self._directory.check_writable()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            attempt = f"put the second log of {self._log.name} in its place"
            if error.errno in DEVICE_FULL or self._log.is_deleted:
                raise storage_error(f"{attempt}: {error}") from error
            raise self._directory.fail_log(error, attempt) from error

    def prepare(self) -> None:
        """Mark the copy valid: a start after a crash then uses it."""
        log, fresh = self._log, self._fresh
        self._check()
        fresh.flush()
        with self._failing(), log.swaps.lock, log.durability.lock:
            log.swaps.settle()
            # First, as a checkpoint written meanwhile takes the recovery point from `durability`.
            log.durability.hold_at(fresh.recovery_point, self)
            self._note_checkpoints()
            self._copy.mark()

    def _note_checkpoints(self) -> None:
        """Lower the checkpoints to values that are correct for both logs."""
        log, fresh, directory = self._log, self._fresh, self._directory
        key = log.topic, log.partition
        kept_from = log.deletions_kept_after_crash
        directory.kept_deletions.set(key, kept_from, only_if=lambda: not log.is_deleted)
        directory.recovery_points.lower(key, fresh.recovery_point)
        directory.high_watermarks.lower(key, fresh.log_end_offset)
        directory.log_start_offsets.lower(key, fresh.log_start_offset)
        directory.cleaner_offsets.lower(key, 0)  # the copy was never cleaned here

    def abandon(self) -> None:
        self._copy.drop()
        self._log.durability.release(self)
        self._log.deletions_kept_beside = 0

    def cut(self) -> bool:
        """Replace the log, for readers too."""
        log = self._log
        self._check()
        with ExitStack() as held:
            for lock in (log.swaps.lock, log.durability.lock):  # threads that use the old folder
                if not lock.acquire(blocking=False):
                    return False
                held.callback(lock.release)
            if log.is_moving or log.swaps.pending is not None:
                return False
            with self._failing():
                self._rename()
            self.is_cut = True
            self._take_over()
        return True

    def _rename(self) -> None:
        """Rename the folders, and the open files of both logs."""
        log, fresh, open_files = self._log, self._fresh, self._directory.open_files
        old_files = [file for segment in log.segments for file in segment.all_files()]
        new_files = [file for segment in fresh.segments for file in segment.all_files()]
        open_files.rename_folder(log.path, self._left_path, old_files)
        try:
            open_files.rename_folder(fresh.path, self._path, new_files)
        except OSError:
            self._put_back(old_files)
            raise

    def _put_back(self, old_files: list[LogFile]) -> None:
        try:
            self._directory.open_files.rename_folder(self._left_path, self._log.path, old_files)
        except OSError as error:  # can't be undone: the log is loaded again, from the new folder
            self._copy.is_last = True
            raise OSError(errno.EIO, str(error)) from error

    def _take_over(self) -> None:
        log, fresh = self._log, self._fresh
        fresh.is_deleted = True
        fresh.durability.give_up()
        self._durability.recovery_point = fresh.recovery_point
        take_over(log, fresh)
        log.refetch = None
        log.deletions_kept_beside = 0
        log.durability = self._durability
        log.leader_epochs.unsaved.note()
        log.truncations += 1  # all segments are new objects
        log.is_being_cut = True  # until `finish`

    def rebuild(self) -> None:
        """Make the new names durable, and then remove the marker."""
        with self._concluding, self._failing():
            if not self._is_concluded:
                self._directory.leave(self._left_path)  # first, as space may be short
                self._files.sync_directory(self._directory.path)
                try:
                    self._remove_what_is_left()
                except OSError as error:
                    if error.errno not in DEVICE_FULL:
                        raise
                    _logger.warning("%s is left: %s", folder_marker.MARKER, error)
                self._is_concluded = True

    def _remove_what_is_left(self) -> None:
        """Remove the marker and the rest of the old log; if that fails, the next start does."""
        key = self._log.topic, self._log.partition
        self._directory.cleaner_offsets.lower(key, 0)  # set by a cleaning that has just ended
        folder_marker.unmark(self._path, self._files)

    def finish(self) -> None:
        try:
            self.rebuild()
        finally:
            self._log.is_being_cut = False
