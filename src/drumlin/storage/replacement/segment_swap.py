"""Old segments give way to cleaned ones, so that a crash leaves the old log or the new one.

    prepare   cleaner's thread    all that is below is made durable, then the plan is: from here
                                  on a crash leads to the new log
    apply     the log's thread    `.cleaned` -> `.swap`, old files in their way -> `.deleted`,
                                  `.swap` -> names; readers find the new segments from here on
    finish    cleaner's thread    other old files -> `.deleted`; the names are made durable, the
                                  plan is removed, and then the old files: a reader that holds one
                                  keeps its room until it lets go

Between `prepare` and `apply` the log lives on. What would make the plan wrong waits (retention)
or takes it back first (truncation). One swap of a log at a time: `pending_swap.py` keeps it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
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
    """The log is not what it was when its cleaning began. Nothing was changed."""


class SegmentSwap:
    """One swap: neighbouring old segments for none, one or several new ones."""

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
        """Begin with segments of the view and such as `CleanedSegmentWriter.finish` returned.

        `drops_deletions`: tombstones or markers of the old ones are not in the new ones.
        `round_end_offset`: what took the place of records that are gone lies before it.
        The log's first segment keeps its base offset; an empty one may take its place.
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
        #: Old files under the names that they have until they are removed.
        self._replaced: list[str] = []
        self._remove_later: Callable[[list[str]], None] = lambda _: None
        self._files = log.log_directory.files
        self._plan_path = f"{log.path}/{FILE_NAME}"

    def __enter__(self) -> Self:
        """`prepare`. To be followed, in the block, by `apply` on the log's thread.

        Raises:
            SegmentsChanged: nothing was changed, and the new files are removed.
            KafkaError: KAFKA_STORAGE_ERROR; likewise.
            OSError: likewise, unless it `is_applied`: then only its end is still to come, with
                the next swap or start.
        """
        try:
            self.prepare()
        except BaseException:
            self.abandon()
            raise
        return self

    def __exit__(
        self, _type: object, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """`finish`; after an error `abandon`. Raises what `__enter__` does."""
        if error is None:
            self.finish()
        else:
            self.abandon()

    # -- the steps ---------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the swap durable: after a crash the new log is used. Blocks.

        Raises:
            SegmentsChanged, KafkaError, OSError: see `__enter__`; to be followed by `abandon`.
        """
        log = self.log
        # Recovery must not read cleaned segments again: what leader epochs and producers were
        # like can't be told from them as well as from what they were made of.
        end_offset = self._check()
        durability = log.durability  # another one, once it has another folder
        with durability.lock:
            # Not `flush`: what a cleaning has no room for takes no log dir offline.
            durability.sync(log.segments, log.leader_epochs, end_offset)
        for segment in self._old:
            segment.transaction_index.entries()  # readers in their midst find them in memory
        with log.swaps.lock:
            log.swaps.settle()
            self._check()
            self.drops_deletions_before = end_offset if self._drops_deletions else 0
            log.swaps.pending = self  # before: after an error the plan may be there
            self._note_checkpoints(min(end_offset, log.recovery_point))
            self._plan = SwapPlan(
                log.topic_id,
                tuple(segment.base_offset for segment in self._old),
                tuple(self._new_names()),
            )
            self._files.sync_directory(log.path)
            self._files.replace_file(self._plan_path, self._plan.encode())

    def _note_checkpoints(self, recovery_point: int) -> None:
        """What a start has to know that completes the swap, durably."""
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
        """The new files beside the logs: not every segment has a transaction index."""
        files = (file for segment in self._new for file in segment.all_files())
        return [file for file in files if file.path.endswith(CLEANED_SUFFIX)]

    def apply(self, remove_later: Callable[[list[str]], None]) -> None:
        """Swap the segments, in their folder and in the log. On the log's thread only.

        Args:
            remove_later: takes what `finish` does not come to remove, or cannot.
        """
        swaps = self.log.swaps
        if not swaps.lock.acquire(blocking=False):
            raise SegmentsChanged(f"{self.log.name} is being loaded again")
        try:
            end_offset = self._check()
            if swaps.pending is not self or self.is_applied:
                raise SegmentsChanged(f"what was to be swapped in {self.log.name} was taken back")
            if self._drops_deletions:  # first: readers that find the new segments know of it
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
        """Make the new names durable, so that no start has anything to complete. Blocks.

        The device has the room of the old files back then, but for `held_bytes`.

        Raises:
            OSError: it is to be tried again, which the next swap does.
        """
        try:
            with self.log.swaps.lock:
                if self.log.swaps.pending is self:
                    self._settle()
        finally:
            self._remove_replaced()

    def abandon(self) -> None:
        """Leave the log as it is, and nothing of the new segments. Blocks.

        Raises:
            OSError: the plan could not be removed: a start would still complete it.
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
        """`finish` or `abandon`, on any thread; the caller must hold the lock."""
        try:
            self._settle()
        finally:  # not here: large files take their time
            replaced, self._replaced = self._replaced, []
            self._remove_later(replaced)

    @property
    def held_bytes(self) -> int:
        """Room of old segments that readers still have."""
        return sum(segment.size for segment in self._old if segment.log_file.is_open)

    def _remove_replaced(self) -> None:
        """Remove the old files, as the new ones have their place. Blocks."""
        while self._replaced and not self.log.is_deleted:  # else they go with their folder
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
            return  # they go with their folder, and its name may have become another log's
        for file in self._new_files():
            try:
                self._files.remove(file.path)
            except OSError as error:  # it goes with the next start
                _logger.warning("%s could not be removed: %s", file.path, error)

    # -- may it be done? ---------------------------------------------------------------

    def _check(self) -> int:
        """Refuse where the log has changed in what matters.

        Returns:
            Where the old segments end.
        """
        log = self.log
        log.log_directory.check_writable()
        if log.is_deleted:
            raise SegmentsChanged(f"{log.name} is deleted")
        if not log.config.is_compacted:
            raise SegmentsChanged(f"{log.name} is not to be compacted any more")
        if log.truncations != self._truncations:
            raise SegmentsChanged(f"{log.name} was cut meanwhile")
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
            raise ValueError(f"new segments at {new_offsets} do not fit where the old ones are")
        is_start_kept = new_offsets[:1] == [current[0].base_offset]
        if first == 0 and log.log_start_offset < end_offset and not is_start_kept:
            if not self._was_first:
                raise SegmentsChanged(f"{log.name} begins with these segments now")
            raise ValueError("the first segment of a log keeps its base offset")
        return end_offset

    # -- renaming ----------------------------------------------------------------------

    def _old_files(self) -> list[LogFile]:
        return [file for segment in self._old for file in segment.all_files()]

    def _rename_old(self) -> None:
        """What `apply` could leave as it was, as nothing takes its name. There may be a lot."""
        # A file that an old segment never had may be one of the new one's now.
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
        """Give all files their new names, or leave all as they were."""
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
        """Apache Kafka's order: first from the end, then from the beginning."""
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
            # Neither forth nor back: the dir is loaded again from what the device has.
            self._is_torn = True
            failure = OSError(errno.EIO, str(error))
            self.log.log_directory.fail_log(failure, f"swap segments of {self.log.name}")
            return
        for segment in self._old:
            segment.is_deleted = False


def _is_deleted(file: LogFile) -> bool:
    return file.path.endswith(DELETED_SUFFIX)
