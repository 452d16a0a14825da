"""Truncating a log, as a follower does when its records differ from its leader's.

    prepare   a thread            a pending swap is undone; recovery point and other checkpoints
                                  are lowered durably, so that after a crash they do not cover
                                  records written in place of the removed ones
    cut       the log's thread    the records are removed, for readers too
    rebuild   a thread            old files are removed, the producer state is rebuilt
    finish    the log's thread    appends are possible again

Between `prepare` and `cut` the log stays in use; `cut` refuses if the log has changed too much
since. Between `cut` and `finish` nothing may be appended, and no segment rolled or deleted.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from drumlin.storage.directory.log_directory import storage_error
from drumlin.storage.log.log_state import LogState
from drumlin.storage.log.producer_replay import (
    follow_segment,
    load_snapshot_up_to,
    snapshot_offsets,
)
from drumlin.storage.producers.producer_snapshot import snapshot_path
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.segment.segment import BatchPlace, Segment
from drumlin.wire.exact_from import UNKNOWN_YET


class _Place(NamedTuple):
    """The place of a cut, with the facts about the log when it was looked up."""

    offset: int  # the base offset of the first removed batch, or the requested offset
    end_offset: int  # the end offset of the batches that stay
    segment: Segment
    size: int
    first: BatchPlace | None  # the first removed batch of this segment


class Truncation:
    """One truncation. An error of `cut` or `rebuild` takes the log dir offline.

    All steps raise `KafkaError` KAFKA_STORAGE_ERROR when the disk fails, or the log is deleted.
    """

    def __init__(self, log: LogState, offset: int, *, is_full: bool = False) -> None:
        """Remove all batches with an offset at or after `offset`.

        With `is_full` all batches are removed, and the log starts at `offset`.
        """
        self.log = log
        self.is_cut = False
        self._offset = offset
        self._is_anew = is_full
        self._place: _Place | None = None  # None: everything is removed
        self._begins_at = offset
        self._doomed: list[str] = []
        self._rebuilding = threading.Lock()
        self._state: ProducerState | None = None

    def run(self) -> None:
        """Carry out all steps, on the log's thread. Blocks."""
        is_cut = False
        while not is_cut:
            self.prepare()
            is_cut = self.cut(may_block=True)
        self.finish()

    # -- the steps ---------------------------------------------------------------------

    def prepare(self) -> None:
        """Lower the checkpoints. Blocks, in any thread. `cut` or `abandon` must follow."""
        log = self.log
        with _failing(log, is_halfway=False), log.swaps.lock, log.durability.lock:
            if log.is_deleted:
                raise storage_error(f"{log.name} was deleted")
            log.swaps.settle()
            self._look_up()
            offset = self._begins_at if self._place is None else self._place.end_offset
            # First, as a checkpoint written meanwhile takes the recovery point from `durability`.
            log.durability.hold_at(offset, self)
            _lower_checkpoints(log, offset)

    def abandon(self) -> None:
        """Leave the log as it is."""
        self.log.durability.release(self)

    def cut(self, *, may_block: bool = False) -> bool:
        """Cut the log, on its thread only. False if it has to be prepared again."""
        log = self.log
        if log.is_deleted:
            raise storage_error(f"{log.name} was deleted")
        if not log.swaps.lock.acquire(blocking=may_block):
            return False
        try:
            if log.is_moving or log.swaps.pending is not None or not self._is_place_right():
                return False
            self.is_cut = log.is_being_cut = True
            log.truncations += 1  # invalidates a cleaning in progress
            with _failing(log, is_halfway=True):
                if self._place is None:
                    self._cut_all()
                else:
                    self._cut_at(self._place)
        finally:
            log.swaps.lock.release()
        return True

    def rebuild(self) -> None:
        """Remove old files and rebuild the producer state. Blocks, in any thread."""
        log = self.log
        with self._rebuilding, _failing(log, is_halfway=True), log.durability.lock:
            if self._state is None and log.is_deleted:
                raise storage_error(f"{log.name} was deleted")
            if self._state is None:
                self._remove_old_files()
                self._state = _rebuilt(log)

    def finish(self) -> None:
        """End the truncation, on the log's thread only. Waits for `rebuild`, or calls it."""
        self.rebuild()
        assert self._state is not None
        self.log.producer_state = self._state
        self.log.is_being_cut = False
        self.log.epoch_due_at = None  # lost records are removed, or fetched again
        self.log.durability.release(self)

    # -- the place to cut --------------------------------------------------------------

    def _look_up(self) -> None:
        log, offset = self.log, self._offset
        self._place, self._begins_at = None, offset
        if self._is_anew or offset <= log.log_start_offset:
            return
        segment = log.segments.from_offset(offset)[0]
        size = segment.size
        found = segment.find(offset)
        position = size
        if found is not None:  # the batch that holds `offset` is removed as a whole
            position, offset = found.position, min(offset, found.header.base_offset)
        end_offset = segment.end_offset_at(position)
        if end_offset < log.log_start_offset:
            # No readable record is left. Offsets below the log start must not be assigned again.
            self._begins_at = log.log_start_offset
            return
        segment.transaction_index.load()
        self._place = _Place(offset, end_offset, segment, size, found)

    def _is_place_right(self) -> bool:
        if self._place is None:
            return True
        segments, place = self.log.segments, self._place
        is_there = segments.from_offset(place.offset)[0] is place.segment
        return is_there and place.segment.size == place.size

    # -- cutting -----------------------------------------------------------------------

    def _cut_at(self, place: _Place) -> None:
        log, segment = self.log, place.segment
        gone = [each for each in log.segments if each.base_offset > segment.base_offset]
        self._settle(gone, place.end_offset)
        log.segments.replace(gone, ())
        log.durability.note_unsealed(segment)
        if place.first is not None:
            segment.cut(place.first)
        for each in reversed(gone):  # so that a crash in between leaves no gap
            self._doomed += each.mark_deleted()

    def _cut_all(self) -> None:
        log, begins_at = self.log, self._begins_at
        gone = list(log.segments)
        for each in reversed(gone):  # before the new segment, which may have the same names
            self._doomed += each.rename_as_deleted()
        created_ms = log.log_directory.clock.wall_ms()
        segment = Segment.create(log.path, begins_at, log.log_directory.open_files, created_ms)
        log.log_start_offset = begins_at
        log.exact_from = 0 if begins_at == 0 else UNKNOWN_YET
        self._settle(gone, begins_at)
        log.leader_epochs.clear()  # the leader may end these epochs before this offset
        log.segments.replace(gone, (segment,))
        for each in gone:
            each.discard()
        if self._is_anew:
            log.refetch = None

    def _settle(self, gone: list[Segment], end_offset: int) -> None:
        log = self.log
        log.log_end_offset = end_offset
        log.high_watermark_is_at_most(end_offset)
        log.deletions_kept_from = min(log.deletions_kept_from, end_offset)
        log.leader_epochs.truncate_from_end(end_offset)
        log.durability.drop_from(end_offset)
        log.durability.forget(gone)
        log.durability.note_new_names()

    # -- afterwards --------------------------------------------------------------------

    def _remove_old_files(self) -> None:
        """Remove the files of removed records, step by step, durably.

        A crash at any point leaves no gap, and no old record after new ones.
        """
        log, files = self.log, self.log.log_directory.files
        files.sync_directory(log.path)
        active = log.segments.active
        active.rest()
        active.sync_log()
        for path in self._doomed:
            log.durability.remove(path)
        for offset in snapshot_offsets(log.path, files):
            if offset > log.log_end_offset:
                log.durability.remove(snapshot_path(log.path, offset))
        files.sync_directory(log.path)


def truncate(log: LogState, offset: int) -> None:
    """Remove all batches with an offset at or after `offset`. Blocks, on the log's thread."""
    if offset < log.log_end_offset:
        Truncation(log, offset).run()
    else:  # only an epoch without records may be dropped
        log.leader_epochs.truncate_from_end(log.log_end_offset)


def truncate_fully(log: LogState, offset: int) -> None:
    """Remove everything; the log starts at `offset`. Blocks, on the log's thread."""
    Truncation(log, offset, is_full=True).run()


@contextmanager
def _failing(log: LogState, *, is_halfway: bool) -> Iterator[None]:
    """Report errors of the disk. Halfway, files and memory differ: the log dir goes offline."""
    try:
        yield
    except OSError as error:
        if log.is_deleted:
            raise storage_error(f"{log.name} was deleted") from error
        attempt = f"truncate {log.name}"
        if is_halfway:
            error = OSError(errno.EIO, str(error))
        raise log.log_directory.fail_log(error, attempt) from error


def _lower_checkpoints(log: LogState, offset: int) -> None:
    key, directory = (log.topic, log.partition), log.log_directory
    directory.recovery_points.lower(key, offset)
    directory.cleaner_offsets.lower(key, offset)
    directory.high_watermarks.lower(key, offset)
    if offset < log.log_start_offset:
        directory.log_start_offsets.lower(key, offset)


def _rebuilt(log: LogState) -> ProducerState:
    """The producer state, rebuilt from the remaining records."""
    state, end_offset = ProducerState(), log.log_end_offset
    files = log.log_directory.files
    load_snapshot_up_to(end_offset, state, log.path, files, log.log_start_offset)
    for segment in log.segments.from_offset(state.end_offset):
        follow_segment(state, segment)
    state.end_offset = end_offset
    active = log.segments.active
    _ = active.first_timestamp, active.largest_timestamp  # read here, not by the first append
    return state


def skip_to(log: LogState, offset: int) -> None:
    """Make `offset` the next one, durably: those below were assigned before, and lost."""
    if log.size_bytes == 0:
        truncate_fully(log, offset)
    else:
        files, active = log.log_directory.files, log.segments.active
        created_ms = log.log_directory.clock.wall_ms()
        segment = Segment.create(log.path, offset, log.log_directory.open_files, created_ms)
        if active.size:
            active.seal()
            active.sync()
            log.segments.add(segment)
        else:
            log.segments.replace((active,), (segment,))
            active.remove_files()
        files.sync_directory(log.path)
        log.log_end_offset = log.producer_state.end_offset = offset
    log.durability.recovery_point = offset


def settle(log: LogState, end_offset: int, recovery_point: int) -> None:
    """Set the log end offset after loading or truncating, and everything that depends on it."""
    log.log_end_offset = log.producer_state.end_offset = end_offset
    log.high_watermark_is_at_most(end_offset)
    log.durability.recovery_point = min(recovery_point, end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.log_directory.cleaner_offsets.lower((log.topic, log.partition), end_offset)
    if end_offset < log.log_start_offset:
        # No readable record is left. Offsets below the log start must not be given out again.
        truncate_fully(log, log.log_start_offset)
