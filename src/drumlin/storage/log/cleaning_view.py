"""A snapshot of a log for its cleaner, taken on the thread that changes the log."""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.config.topic import LogConfig
from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.log.log_state import LogState
from drumlin.storage.producers.producer_table import FrozenProducers
from drumlin.storage.segment.segment import Segment

#: A delete horizon that never comes.
NO_HORIZON: Final = INT64_MAX


class CleaningView(NamedTuple):
    """A log at one moment. Sealed segments stay readable for as long as they are not deleted."""

    #: In order; the last one is active.
    segments: tuple[Segment, ...]
    log_start_offset: int
    log_end_offset: int
    #: The first offset of an undecided transaction, or the high watermark.
    last_stable_offset: int
    producers: FrozenProducers
    #: How often the log was truncated so far: a cleaning begun before a truncation must be dropped.
    truncations: int
    config: LogConfig
    #: No tombstone and no marker may go now: a follower has still to get some of them.
    keeps_deletions: bool

    @property
    def last_data_offsets(self) -> dict[int, int]:
        """Producer id -> last offset of its last data batch, which must stay to detect duplicates.

        Computed on first use, in the thread of that use.
        """
        return self.producers.last_data_offsets

    @property
    def epochs_without_data(self) -> dict[int, int]:
        """Producer id -> epoch, if it has no data batch: a control batch keeps it alive."""
        return self.producers.epochs_without_data


def note_cleaned(
    log: LogState, view: CleaningView, end_offset: int, delete_horizon_ms: int = NO_HORIZON
) -> None:
    """Store in the cleaner checkpoint that the log is clean up to `end_offset`.

    Before that, in another, that its first tombstones or markers may go at `delete_horizon_ms`:
    after a crash between the two it is cleaned once more. Does nothing if the log was truncated
    since `view` was taken.

    Raises:
        OSError: it could not be written.
    """
    with log.swaps.lock:  # a truncation lowers it under the same lock
        if log.truncations == view.truncations and not log.is_deleted:
            directory, key = log.log_directory, (log.topic, log.partition)
            try:
                directory.delete_horizons.set(
                    key, delete_horizon_ms, only_if=lambda: not log.is_deleted
                )
            finally:  # what is not written is known in memory
                directory.cleaner_offsets.set(key, end_offset, only_if=lambda: not log.is_deleted)


def cleaning_view(log: LogState) -> CleaningView:
    """The log as it is now. Only on the thread that changes it."""
    stable = log.high_watermark
    first_undecided = log.producer_state.first_undecided_offset
    if first_undecided is not None:
        stable = min(stable, first_undecided)
    return CleaningView(
        log.segments.snapshot(),
        log.log_start_offset,
        log.log_end_offset,
        stable,
        log.producer_state.freeze(),
        log.truncations,
        log.config,
        log.has_follower_below(stable),
    )
