"""A log that is fetched anew: beside the one that is there, which it replaces once it is complete.

    LogCopy       an empty log in `topic-partition.<hex>-future`, which its follower fills
    ChangeOver    old folder -> `-delete`, the new one gets the log's name, and the log its state

Both are carried out in the steps of `LogChange`. A crash leaves one whole log. From `ChangeOver`
on, a file in the new folder says that it counts (`moved_folders.py`); before that, a start removes
it. A copy ends with whatever makes its log another one: a truncation, a move, a disk that failed.

The copy never has the last room of a device: others need that, and the old log is there.
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
from drumlin.storage.files.files import DEVICE_FULL, want_of_room
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

#: A segment is left free, or this part of a device that is small.
_LEFT_FREE: Final = 20


class LogChange(Protocol):
    """What is done to a log that is followed, in the steps of `storage.truncation`."""

    is_cut: bool

    def prepare(self) -> None:
        """Blocks, in any thread. To be followed by `cut` or `abandon`."""

    def abandon(self) -> None:
        """Leave the log as it is."""

    def cut(self) -> bool:
        """On the log's thread only. False: it is to be prepared again."""

    def rebuild(self) -> None:
        """Blocks, in any thread."""

    def finish(self) -> None:
        """On the log's thread only."""


class FreshLog(PartitionLog):
    """The copy. A device that has no room for it is not full for other logs."""

    #: Of what it had taken something is gone, as there was no room for it: it is to be dropped.
    has_lost: bool = False

    def _failed(self, error: OSError, attempt: str) -> KafkaError:
        reason = want_of_room(error)
        if reason is None or self.is_deleted:
            return super()._failed(error, attempt)
        if reason is not error:
            self.has_lost = True
        return storage_error(f"no room for a second log of {self.name}: {reason}")

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """As long as it is empty: begin elsewhere, without a word in the old log's checkpoints."""
        if self.size_bytes:
            raise storage_error(f"the second log of {self.name} has records already")
        with self._failing_as("begin"):
            self._roll(offset, self.log_directory.clock.wall_ms())
        self.log_start_offset = self.log_end_offset = self.producer_state.end_offset = offset


class LogCopy:
    """A log beside `log`; as a `LogChange`, its beginning."""

    def __init__(self, log: PartitionLog, begins_at: int, goal: int) -> None:
        """It is complete when it has all below `goal`, and all that is committed."""
        self.is_cut = False
        self.goal = goal
        self._old = log
        self._begins_at = begins_at
        self._directory, self._truncations = log.log_directory, log.truncations
        self._path = f"{self._directory.path}/{future_directory_name(log.topic, log.partition)}"
        self._log: FreshLog | None = None
        self._is_dropped = False
        #: Held to drop it, or to begin something with its folder that must not meet that.
        self._dropping = threading.Lock()
        self._is_being_made = False
        self._is_marked = False  # a crash may lead to it
        #: Whether there is no other: it is the log's as soon as its device works again.
        self.is_last = False

    @property
    def log(self) -> FreshLog:
        assert self._log is not None
        return self._log

    @property
    def is_current(self) -> bool:
        """Whether it is whole, and beside the log with which it was begun, which never failed."""
        has_lost = self._log is not None and self._log.has_lost
        is_same = self._old.truncations == self._truncations
        return is_same and not self._is_dropped and not has_lost

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes more may be written.

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
        """From the end of this on a crash leads to it, until it is dropped. Blocks.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, it is dropped.
            OSError: the marker may be there.
        """
        log = self.log
        with self._dropping:
            if self._is_dropped:
                raise storage_error(f"the second log of {log.name} is dropped")
            self._is_marked = True
            folder_marker.mark(log.path, log.topic, log.partition, self._directory.files)

    def drop(self) -> None:
        """Forget it. Its folder is removed in the background, or by the next start.

        No crash leads to it any more: what is appended to the old log next is not to be lost.
        """
        with self._dropping:
            self._is_dropped = True
            if self._log is not None:
                self._log.mark_deleted()
            if self.is_last or self._is_being_made:  # whoever makes it drops it once more
                return
            if self._is_marked:
                try:
                    folder_marker.unmark(self._path, self._directory.files)
                except OSError as error:
                    self._directory.fail(error, f"drop {self._path}")
            self._directory.leave(self._path)

    # -- its beginning ---------------------------------------------------------------------

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
        """Nothing of the old log: it is only begun."""
        self.is_cut = True
        return True

    def rebuild(self) -> None: ...

    def finish(self) -> None: ...


class ChangeOver:
    """Have a log be what was fetched beside it. Nothing is appended to either meanwhile."""

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
        """From the end of this on, a crash leads to the new log."""
        log, fresh = self._log, self._fresh
        self._check()
        fresh.flush()
        with self._failing(), log.swaps.lock, log.durability.lock:
            log.swaps.settle()
            # First: a checkpoint that is written meanwhile takes it from here.
            log.durability.hold_at(fresh.recovery_point, self)
            self._note_checkpoints()
            self._copy.mark()

    def _note_checkpoints(self) -> None:
        """What holds of either log."""
        log, fresh, directory = self._log, self._fresh, self._directory
        key = log.topic, log.partition
        kept_from = log.deletions_kept_after_crash
        directory.kept_deletions.set(key, kept_from, only_if=lambda: not log.is_deleted)
        directory.recovery_points.lower(key, fresh.recovery_point)
        directory.high_watermarks.lower(key, fresh.log_end_offset)
        directory.log_start_offsets.lower(key, fresh.log_start_offset)
        directory.cleaner_offsets.lower(key, 0)  # the new one was never cleaned here

    def abandon(self) -> None:
        self._copy.drop()
        self._log.durability.let_go(self)
        self._log.deletions_kept_beside = 0

    def cut(self) -> bool:
        """The log is the new one, for readers too."""
        log = self._log
        self._check()
        with ExitStack() as held:
            for lock in (log.swaps.lock, log.durability.lock):  # threads are in the old folder
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
        """Readers of either log find its files under the new names only."""
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
        except OSError as error:  # neither forth nor back: it is loaded again from the new folder
            self._copy.is_last = True
            raise OSError(errno.EIO, str(error)) from error

    def _take_over(self) -> None:
        log, fresh = self._log, self._fresh
        fresh.is_deleted = True
        fresh.durability.give_up()
        self._durability.recovery_point = fresh.recovery_point
        take_over(log, fresh)
        log.anew = None
        log.deletions_kept_beside = 0
        log.durability = self._durability
        log.leader_epochs.unsaved.note()
        log.truncations += 1  # all segments are new objects
        log.is_being_cut = True  # until its folder is no concern of ours any more

    def rebuild(self) -> None:
        """Make the new names durable; as long as they are not, the marker stays."""
        with self._concluding, self._failing():
            if not self._is_concluded:
                self._directory.leave(self._left_path)  # first: room may be what is missing
                self._files.sync_directory(self._directory.path)
                try:
                    self._remove_what_is_left()
                except OSError as error:
                    if error.errno not in DEVICE_FULL:
                        raise
                    _logger.warning("%s is left: %s", folder_marker.MARKER, error)
                self._is_concluded = True

    def _remove_what_is_left(self) -> None:
        """Without room for it, the log is whole all the same: the next start does it."""
        key = self._log.topic, self._log.partition
        self._directory.cleaner_offsets.lower(key, 0)  # of a cleaning that has just ended
        folder_marker.unmark(self._path, self._files)

    def finish(self) -> None:
        try:
            self.rebuild()
        finally:
            self._log.is_being_cut = False
