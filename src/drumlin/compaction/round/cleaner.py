"""One cleaning of one log, from looking at it to the new checkpoint; and one that only counts.

    look -> map of the dirty part -> groups of segments -> rewritten -> swapped, group by group

Groups are swapped in ascending order, and one is durable before the next: a tombstone never
goes before what it has deleted. A crash, a full disk or a stop at any point leaves the log with
some groups cleaned and others not, which is a log like any other.

Runs in a thread of the pool. It reads sealed segments, which never change, and asks for the
swap where logs may be changed.
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
from drumlin.compaction.round.pieces import PieceReader
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
_READERS_WAITED_FOR: Final = 40  # looks


class Call(Protocol):
    """Calls a function where logs may be changed, and returns what it has returned."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


class Cleaner:
    """Cleans one log after the other, in one thread."""

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
        #: How far the last cleaning came, if it did not come to its end.
        self.progress: RoundProgress | None = None

    def clean(
        self,
        log: PartitionLog,
        swap_segments: Callable[[SegmentSwap], None],
        begun: RoundProgress | None = None,
        *,
        is_asked_for: bool = False,
    ) -> CleaningStatistics | None:
        """Clean what of a log can be cleaned; None if there is nothing.

        `swap_segments` swaps them in the log, and is called where logs may be changed.
        `begun`: how far an earlier cleaning came. `progress` is how far this one did.
        `is_asked_for`: see `Round`.

        Raises:
            CleaningFailed: something in it cannot be read as records.
            CleaningStopped, CleaningPostponed, SegmentsChanged: the rest of it will be cleaned
                another time.
            OSError: a disk is full, or fails.
            KafkaError: the log dir is offline, the log deleted.
        """
        view = self._call(lambda: cleaning_view(log))
        self.progress = begun
        ours: set[Segment] = set()
        with (
            _changes_told(log, view, ours),
            contextlib.closing(self._round(log, view, begun, is_asked_for)) as cleaning,
        ):
            if not view.config.is_compacted or not cleaning.begin():
                return None
            # What the map says is the last record of its key must outlive those before it.
            # Not by `flush`: what a cleaning has no room for takes no log dir offline.
            log.log_directory.check_writable()
            durability = log.durability  # another one, once it has another folder
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
                    continue  # to retention: the rest can be cleaned all the same
                ours.update(group)
                self.progress = cleaning.progress_after(group)
                self._await_readers(log, swap)
            done = cleaning.done()
            self.progress = None
            try:
                note_cleaned(log, view, done.round_end_offset, done.delete_horizon_ms)
            except OSError as error:
                # Known in memory, and written with the next checkpoint; after a crash before
                # that, all of it is read once more.
                _log.warning("%s is clean, but that can't be noted: %s", log.name, error)
        return done

    def _clean_group(
        self,
        log: PartitionLog,
        cleaning: Round,
        group: Sequence[Segment],
        swap_segments: Callable[[SegmentSwap], None],
    ) -> SegmentSwap:
        """Rewrite and swap a group; returns once that is durable."""
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
        """Give readers a moment to let go of old segments whose room the next group needs.

        Only a moment: a consumer may take for ever. Without that room there is `NoRoom`.
        """
        for _ in range(_READERS_WAITED_FOR):
            if not swap.held_bytes or has_room_for_a_segment(log):
                return
            self._stopping.wait(_READERS_LOOKED_AT_S)

    def simulate(self, log: PartitionLog) -> CleaningStatistics | None:
        """What `clean` would do now, without a change; it reads as much. Raises the same."""
        view = self._call(lambda: cleaning_view(log))
        with _changes_told(log, view), contextlib.closing(self._round(log, view)) as cleaning:
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
        is_asked_for: bool = True,
    ) -> Round:
        files = log.log_directory.files
        reader = PieceReader(files, self._throttle, self._stopping)
        return Round(
            log, view, self._settings, reader, self._clock, begun, is_asked_for=is_asked_for
        )


def _is_gone(log: PartitionLog, group: Sequence[Segment]) -> bool:
    """Whether retention has taken all of these, and nothing else has happened to the log.

    If it has taken only some of them, the rest must be looked at again.
    """
    current = log.segments.snapshot()
    return not log.is_deleted and all(segment not in current for segment in group)


@contextlib.contextmanager
def _changes_told(
    log: PartitionLog, view: CleaningView, ours: Container[Segment] = ()
) -> Iterator[None]:
    """Report read errors as SegmentsChanged if segments were truncated or removed meanwhile.

    `ours` are segments that this cleaning has removed itself.

    Raises:
        SegmentsChanged: in the place of what was raised inside.
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
