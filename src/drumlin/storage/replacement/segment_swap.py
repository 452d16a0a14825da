"""Swapping old segments for cleaned ones, atomically: a crash leaves the old log or the new one.

    prepare   cleaner's thread    everything below is made durable, and then the plan: a crash
                                  after that leaves the new log
    apply     the log's thread    `.cleaned` -> `.swap`, conflicting old files -> `.deleted`,
                                  `.swap` -> final names; readers then use the new segments
    finish    cleaner's thread    other old files -> `.deleted`; the names are made durable, then
                                  the plan is removed, and the old files: the space of a file is
                                  free once its last reader has released it

Between `prepare` and `apply` the log stays in use. Retention waits, and truncation undoes the plan
first. A log has at most one pending swap, which `pending_swap.py` holds.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from typing import Self

from drumlin.storage.files.doomed_files import DELETED_SUFFIX, name_for_deleted
from drumlin.storage.files.files import TEMPORARY_SUFFIX
from drumlin.storage.files.open_files import LogFile
from drumlin.storage.log.cleaning_view import CleaningView
from drumlin.storage.log.log_state import LogState
from drumlin.storage.log.swap_plan import (
    CLEANED_SUFFIX,
    FILE_NAME,
    SWAP_SUFFIX,
    SwapPlan,
    remove_snapshots,
)
from drumlin.storage.segment.segment import Segment
from drumlin.wire.exact_from import UNKNOWN_YET

_logger = logging.getLogger(__name__)


class SegmentsChanged(Exception):
    """The log has changed since its cleaning began. The swap has changed nothing."""


class SegmentSwap:
    """One swap of neighbouring old segments for any number of new ones."""

    def __init__(
        self,
        log: LogState,
        view: CleaningView,
        old: Sequence[Segment],
        new: Sequence[Segment],
        *,
        drops_deletions: bool = True,
        round_end_offset: int = UNKNOWN_YET,
    ) -> None:
        """Prepare to swap segments of `view` for segments by `CleanedSegmentWriter.finish`.

        Args:
            drops_deletions: whether the new segments lack tombstones or markers of the old ones.
            round_end_offset: an offset above all records that supersede removed ones.
        The log's first segment keeps its base offset; an empty segment may replace it.
        """
        self.log = log
        self.is_applied = False
        self.drops_deletions_before = 0
        self._truncations = view.truncations
        self._was_first = view.segments[:1] == tuple(old[:1])
        self._old = tuple(old)
        self._new = tuple(new)
        self._drops_deletions = drops_deletions
        self._round_end_offset = round_end_offset
        self._plan = SwapPlan(log.topic_id, (), ())
        self._is_torn = False
        #: The `.deleted` names of old files that are not removed yet.
        self._replaced: list[str] = []
        self._remove_later: Callable[[list[str]], None] = lambda _: None
        self._files = log.log_directory.files
        self._plan_path = f"{log.path}/{FILE_NAME}"

    def __enter__(self) -> Self:
        """Call `prepare`. The block must call `apply` on the log's thread.

        Raises:
            SegmentsChanged: nothing was changed, and the new files are removed.
            KafkaError: KAFKA_STORAGE_ERROR; nothing was changed.
            OSError: nothing was changed, unless the swap `is_applied`: then the next swap or start
                finishes it.
        """
        try:
            self.prepare()
        except BaseException:
            self.abandon()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Call `finish`, or `abandon` after an error. Raises like `__enter__`."""
        if error is None:
            self.finish()
        else:
            self.abandon()

    # -- the steps ---------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the swap durable: a start after a crash uses the new log. Blocks.

        Raises:
            SegmentsChanged, KafkaError, OSError: see `__enter__`; `abandon` must follow.
        """
        log = self.log
        # Recovery must not have to read cleaned segments: they determine leader epochs and producer
        # state less exactly than the old ones.
        end_offset = self._check()
        durability = log.durability  # read once, as it is replaced when the folder moves
        with durability.lock:
            # `flush` is not used: a disk too full for a cleaning must not take the log dir offline.
            durability.sync(log.segments, log.leader_epochs, end_offset)
        for segment in self._old:
            segment.transaction_index.entries()  # loads them for readers of the old segments
        with log.swaps.lock:
            log.swaps.settle()
            self._check()
            self.drops_deletions_before = end_offset if self._drops_deletions else 0
            log.swaps.pending = (
                self  # set first, as the plan may have been written even after an error
            )
            self._note_checkpoints(min(end_offset, log.recovery_point))
            self._plan = SwapPlan(
                log.topic_id,
                tuple(segment.base_offset for segment in self._old),
                tuple(self._new_names()),
            )
            self._files.sync_directory(log.path)
            self._files.replace_file(self._plan_path, self._plan.encode())

    def _note_checkpoints(self, recovery_point: int) -> None:
        """Lower the checkpoints durably, for a start that completes the swap."""
        log, key = self.log, (self.log.topic, self.log.partition)
        directory = log.log_directory
        kept_from = log.deletions_kept_after_crash
        directory.kept_deletions.set(key, kept_from, only_if=lambda: not log.is_deleted)
        directory.recovery_points.raise_to(key, recovery_point, only_if=lambda: not log.is_deleted)

    def _new_names(self) -> list[str]:
        paths = [file.path for file in self._new_files()]
        for path in paths:
            if not self._files.exists(path):
                raise SegmentsChanged(f"{path} is gone")
        return [path.rpartition("/")[2].removesuffix(CLEANED_SUFFIX) for path in paths]

    def _new_files(self) -> list[LogFile]:
        """The index files of the new segments; not every segment has a transaction index."""
        files = (file for segment in self._new for file in segment.all_files())
        return [file for file in files if file.path.endswith(CLEANED_SUFFIX)]

    def apply(self, remove_later: Callable[[list[str]], None]) -> None:
        """Swap the segments, in the folder and in the log. On the log's thread only.

        Args:
            remove_later: takes files that `finish` could not remove.
        """
        swaps = self.log.swaps
        if not swaps.lock.acquire(blocking=False):
            raise SegmentsChanged(f"{self.log.name} is being loaded again")
        try:
            end_offset = self._check()
            if swaps.pending is not self or self.is_applied:
                raise SegmentsChanged(f"the swap in {self.log.name} was undone")
            if self._drops_deletions:  # first, before readers can use the new segments
                self.log.note_deletions_dropped(end_offset)
            self.log.note_states_cleaned(self._round_end_offset)
            self._rename_all()
            self.log.segments.replace(self._old, self._new)
            self.log.durability.forget(self._old)
            self.log.durability.note_new_names()
            self.is_applied = True
            self._remove_later = remove_later
        finally:
            swaps.lock.release()
        for segment in self._old:
            segment.discard()
        self._replaced += [file.path for file in self._old_files() if _is_deleted(file)]

    def finish(self) -> None:
        """Make the new names durable, so that no start has to complete the swap. Blocks.

        Afterwards the space of the old files is free, except for `held_bytes`.

        Raises:
            OSError: the next swap has to repeat this.
        """
        try:
            with self.log.swaps.lock:
                if self.log.swaps.pending is self:
                    self._settle()
        finally:
            self._remove_replaced()

    def abandon(self) -> None:
        """Keep the log unchanged, and remove the new segments. Blocks.

        Raises:
            OSError: the plan could not be removed, so that a start would still complete it.
        """
        try:
            with self.log.swaps.lock:
                if self.log.swaps.pending is self:
                    self._settle()
                elif not self.is_applied:
                    self._remove_new()
        finally:
            self._remove_replaced()

    def settle(self) -> None:
        """Finish or abandon the swap, on any thread; the caller must hold the lock."""
        try:
            self._settle()
        finally:  # not here, as removing large files takes long
            replaced, self._replaced = self._replaced, []
            self._remove_later(replaced)

    @property
    def held_bytes(self) -> int:
        """The size of old segments that readers still hold."""
        return sum(segment.size for segment in self._old if segment.log_file.is_open)

    def _remove_replaced(self) -> None:
        """Remove the old files, after the swap. Blocks."""
        while self._replaced and not self.log.is_deleted:  # else the folder is removed
            path = self._replaced.pop()
            try:
                self._files.remove(path)
            except OSError as error:
                _logger.warning("%s could not be removed: %s", path, error)
                self._remove_later([path])

    def _settle(self) -> None:
        files, path = self._files, self.log.path
        if self.log.is_deleted:
            self.log.swaps.pending = None
            return
        if self._is_torn:
            raise OSError(errno.EIO, f"{path} has to be loaded again")
        if self.is_applied:
            self._rename_old()
            if self.log.is_deleted:
                self.log.swaps.pending = None
                return
            files.sync_directory(path)
            remove_snapshots(path, self._plan, files)
        files.remove(self._plan_path)
        files.remove(self._plan_path + TEMPORARY_SUFFIX)
        files.sync_directory(path)
        self.log.swaps.pending = None
        if not self.is_applied:
            self._remove_new()

    def _remove_new(self) -> None:
        if self.log.is_deleted:
            return  # the folder is removed, and the path may belong to another log by now
        for file in self._new_files():
            try:
                self._files.remove(file.path)
            except OSError as error:  # the next start removes it
                _logger.warning("%s could not be removed: %s", file.path, error)

    # -- checks ------------------------------------------------------------------------

    def _check(self) -> int:
        """Refuse the swap if the old segments can no longer be replaced by the new ones.

        Returns:
            The end offset of the old segments.
        """
        log = self.log
        log.log_directory.check_writable()
        if log.is_deleted:
            raise SegmentsChanged(f"{log.name} is deleted")
        if not log.config.is_compacted:
            raise SegmentsChanged(f"{log.name} is no longer compacted")
        if log.truncations != self._truncations:
            raise SegmentsChanged(f"{log.name} was truncated meanwhile")
        current = log.segments.snapshot()
        first = current.index(self._old[0]) if self._old[0] in current else len(current)
        end = first + len(self._old)
        if current[first:end] != self._old:
            raise SegmentsChanged(f"segments of {log.name} are gone")
        if end == len(current):
            raise ValueError("the active segment can't be swapped")
        end_offset = current[end].base_offset
        new_offsets = [segment.base_offset for segment in self._new]
        offsets = [self._old[0].base_offset - 1, *new_offsets, end_offset]
        if offsets != sorted(set(offsets)):
            raise ValueError(f"new segments at {new_offsets} cannot replace the old ones")
        is_start_kept = new_offsets[:1] == [current[0].base_offset]
        if first == 0 and log.log_start_offset < end_offset and not is_start_kept:
            if not self._was_first:
                raise SegmentsChanged(f"{log.name} starts with these segments now")
            raise ValueError("the first segment of a log must keep its base offset")
        return end_offset

    # -- renaming ----------------------------------------------------------------------

    def _old_files(self) -> list[LogFile]:
        return [file for segment in self._old for file in segment.all_files()]

    def _rename_old(self) -> None:
        """Rename the old files, maybe many, that `apply` did not have to rename."""
        # Paths of optional files that an old segment did not have may belong to a new one now.
        new_paths = {file.path for segment in self._new for file in segment.all_files()}
        for file in self._old_files():
            if self.log.is_deleted:
                return
            if _is_deleted(file) or file.path in new_paths:
                continue
            if self._files.exists(file.path):
                file.rename(name_for_deleted(file.path, self._files))
                self._replaced.append(file.path)

    def _rename_all(self) -> None:
        """Rename all files, or none of them."""
        done: list[tuple[LogFile, str]] = []

        def rename(file: LogFile, path: str) -> None:
            before = file.path
            file.rename(path)
            done.append((file, before))

        for segment in self._old:
            segment.is_deleted = True
        try:
            self._rename_in_order(rename)
        except OSError as error:
            self._take_back(done, error)
            raise

    def _rename_in_order(self, rename: Callable[[LogFile, str], None]) -> None:
        """Rename in Apache Kafka's order: first from the end, then from the beginning."""
        new = self._new_files()
        for file in reversed(new):
            rename(file, file.path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
        base_offsets = {segment.base_offset for segment in self._new}
        for segment in self._old:
            if segment.base_offset in base_offsets:
                for file in segment.all_files():
                    if self._files.exists(file.path):
                        rename(file, name_for_deleted(file.path, self._files))
        for file in new:
            rename(file, file.path.removesuffix(SWAP_SUFFIX))

    def _take_back(self, done: list[tuple[LogFile, str]], error: OSError) -> None:
        try:
            for file, before in reversed(done):
                file.rename(before)
        except OSError:
            # No way back: the log dir goes offline, and is loaded again from the device.
            self._is_torn = True
            failure = OSError(errno.EIO, str(error))
            self.log.log_directory.fail_log(failure, f"swap segments of {self.log.name}")
            return
        for segment in self._old:
            segment.is_deleted = False


def _is_deleted(file: LogFile) -> bool:
    return file.path.endswith(DELETED_SUFFIX)
