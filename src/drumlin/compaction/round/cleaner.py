"""The cleaning of one log, from its view to the new checkpoint; and a simulation of it.

    view -> map of the dirty part -> groups of segments -> rewritten -> swapped, group by group

Groups are swapped in ascending order, and each is durable before the next. So a tombstone is never
removed before the records that it deletes. A crash, a full disk or a stop at any point leaves a log
in which some groups are clean and others are not, which is a valid log.

Runs in a thread of the pool. The cleaning reads sealed segments, which never change, and must
change a log only by a segment swap in the broker's loop.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from drumlin.clock import Clock
from drumlin.compaction.dirty.round_progress import RoundProgress
from drumlin.compaction.failures import CleaningFailed, SegmentGone
from drumlin.compaction.round.cleaning_round import Round
from drumlin.compaction.round.outputs import Counting, SegmentFiles, has_room_for_a_segment
from drumlin.compaction.round.segment_reader import SegmentReader
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.compaction.throttle import Throttle
from drumlin.storage.log.cleaning_view import CleaningView, cleaning_view, note_cleaned
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.segment_swap import SegmentsChanged, SegmentSwap
from drumlin.storage.segment.segment import Segment

_log = logging.getLogger(__name__)
T = TypeVar("T")
_READERS_LOOKED_AT_S: Final = 0.05
_READERS_WAITED_FOR: Final = 40  # the maximum number of intervals


class Call(Protocol):
    """Runs a function in the loop that changes logs, and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


class Cleaner:
    """Cleans one log after another, in one thread."""

    def __init__(
        self,
        settings: CleanerSettings,
        throttle: Throttle,
        call: Call,
        clock: Clock,
        stopping: threading.Event,
    ) -> None:
        self._settings = settings
        self._throttle = throttle
        self._call = call
        self._clock = clock
        self._stopping = stopping
        #: The progress of the last cleaning, if it did not complete.
        self.progress: RoundProgress | None = None

    def clean(
        self,
        log: PartitionLog,
        swap_segments: Callable[[SegmentSwap], None],
        begun: RoundProgress | None = None,
        *,
        is_requested: bool = False,
    ) -> CleaningStatistics | None:
        """Clean the cleanable part of a log; None if there is nothing to clean.

        Args:
            swap_segments: makes a swap; called in the loop.
            begun: the progress of an earlier cleaning that is continued.
            is_requested: see `Round`.

        Raises:
            CleaningFailed: the log contains something that is not a record batch.
            CleaningStopped, CleaningPostponed, SegmentsChanged: the rest is cleaned later.
            OSError: the disk is full, or fails.
            KafkaError: the log dir is offline, or the log is deleted.
        """
        view = self._call(lambda: cleaning_view(log))
        self.progress = begun
        ours: set[Segment] = set()
        with (
            _reporting_changes(log, view, ours),
            contextlib.closing(self._round(log, view, begun, is_requested)) as cleaning,
        ):
            if not view.config.is_compacted or not cleaning.begin():
                return None
            # The last record of a key must be durable before earlier ones are removed. `flush` is
            # not used: a disk that is too full for a cleaning must not take the log dir offline.
            log.log_directory.check_writable()
            durability = log.durability  # read once, as it is replaced when the folder moves
            with durability.lock:
                end_offset = cleaning.statistics.round_end_offset
                durability.sync(log.segments, log.leader_epochs, end_offset)
            for group in cleaning.groups():
                try:
                    swap = self._clean_group(log, cleaning, group, swap_segments)
                except (SegmentGone, SegmentsChanged):
                    if not _is_gone(log, group):
                        raise
                    cleaning.forget_group()
                    continue  # retention has removed the group; others can still be cleaned
                ours.update(group)
                self.progress = cleaning.progress_after(group)
                self._await_readers(log, swap)
            done = cleaning.done()
            self.progress = None
            try:
                note_cleaned(log, view, done.round_end_offset, done.delete_horizon_ms)
            except OSError as error:
                # The checkpoint is in memory, and written with the next one; after a crash before
                # that, everything is cleaned once more.
                _log.warning(
                    "%s is clean, but its checkpoint can't be written: %s", log.name, error
                )
        return done

    def _clean_group(
        self,
        log: PartitionLog,
        cleaning: Round,
        group: Sequence[Segment],
        swap_segments: Callable[[SegmentSwap], None],
    ) -> SegmentSwap:
        """Rewrite and swap a group; returns once the swap is durable."""
        is_first = group[0] is cleaning.view.segments[0]
        dropped = cleaning.deletions_dropped
        files = SegmentFiles(log, group, self._throttle, keeps_empty=is_first)
        try:
            cleaning.rewrite(group, files)
            new = files.finish()
        except BaseException:
            files.abandon()
            raise
        with SegmentSwap(
            log,
            cleaning.view,
            group,
            new,
            drops_deletions=cleaning.deletions_dropped > dropped,
            round_end_offset=cleaning.statistics.round_end_offset,
        ) as swap:
            self._call(partial(swap_segments, swap))
        cleaning.count_group(group, len(new))
        return swap

    def _await_readers(self, log: PartitionLog, swap: SegmentSwap) -> None:
        """Wait briefly for readers to release old segments whose space the next group needs.

        The wait is limited, as a consumer may take forever. Without the space, rewriting the group
        raises `NoRoom`.
        """
        for _ in range(_READERS_WAITED_FOR):
            if not swap.held_bytes or has_room_for_a_segment(log):
                return
            self._stopping.wait(_READERS_LOOKED_AT_S)

    def simulate(self, log: PartitionLog) -> CleaningStatistics | None:
        """Compute what `clean` would do now, without changing the log. Raises like `clean`."""
        view = self._call(lambda: cleaning_view(log))
        with _reporting_changes(log, view), contextlib.closing(self._round(log, view)) as cleaning:
            if not cleaning.begin():
                return None
            for group in cleaning.groups():
                try:
                    cleaning.rewrite(group, Counting())
                except SegmentGone:
                    cleaning.forget_group()
                    continue
                cleaning.count_group(group, 1)
            return cleaning.done()

    def _round(
        self,
        log: PartitionLog,
        view: CleaningView,
        begun: RoundProgress | None = None,
        is_requested: bool = True,
    ) -> Round:
        files = log.log_directory.files
        reader = SegmentReader(files, self._throttle, self._stopping)
        return Round(
            log, view, self._settings, reader, self._clock, begun, is_requested=is_requested
        )


def _is_gone(log: PartitionLog, group: Sequence[Segment]) -> bool:
    """Whether retention has removed the whole group, and the log exists.

    If retention has removed only some segments, the rest has to be cleaned later.
    """
    current = log.segments.snapshot()
    return not log.is_deleted and all(segment not in current for segment in group)


@contextlib.contextmanager
def _reporting_changes(
    log: PartitionLog, view: CleaningView, ours: Container[Segment] = ()
) -> Iterator[None]:
    """Report read errors as SegmentsChanged if segments were truncated or removed meanwhile.

    `ours` are the segments that this cleaning has removed itself.

    Raises:
        SegmentsChanged: in place of the error.
    """
    try:
        yield
    except (CleaningFailed, FileNotFoundError) as error:
        if (
            log.is_deleted
            or log.truncations != view.truncations
            or any(segment.is_deleted for segment in view.segments if segment not in ours)
        ):
            raise SegmentsChanged(f"{log.name} was changed meanwhile: {error}") from error
        raise
