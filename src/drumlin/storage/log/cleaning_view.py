"""A consistent view of a log for its cleaner, taken on the thread that changes the log."""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.config.topic import LogConfig
from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.log.log_state import LogState
from drumlin.storage.producers.producer_table import FrozenProducers
from drumlin.storage.segment.segment import Segment

#: Stands for "no delete horizon".
NO_HORIZON: Final = INT64_MAX


class CleaningView(NamedTuple):
    """A log at one moment. Sealed segments stay readable until they are deleted."""

    #: In ascending order; the last one is active.
    segments: tuple[Segment, ...]
    log_start_offset: int
    log_end_offset: int
    #: The first offset of an undecided transaction, or the high watermark.
    last_stable_offset: int
    producers: FrozenProducers
    #: The number of truncations so far: a cleaning that began before the last one must be dropped.
    truncations: int
    config: LogConfig
    #: Whether no tombstone or marker may be removed, as a follower has not fetched all of them yet.
    keeps_deletions: bool

    @property
    def last_data_offsets(self) -> dict[int, int]:
        """Producer id -> last offset of its last data batch, which is kept to detect duplicates.

        Computed on first use, in the calling thread.
        """
        return self.producers.last_data_offsets

    @property
    def epochs_without_data(self) -> dict[int, int]:
        """Producer id -> epoch, of producers without a data batch: a control batch is kept."""
        return self.producers.epochs_without_data


def note_cleaned(
    log: LogState, view: CleaningView, end_offset: int, delete_horizon_ms: int = NO_HORIZON
) -> None:
    """Advance the cleaner checkpoint to `end_offset`.

    The earliest delete horizon is stored first, in another checkpoint: after a crash between the
    two the log is cleaned once more. Does nothing if the log was truncated since `view`.

    Raises:
        OSError: a checkpoint could not be written.
    """
    with log.swaps.lock:  # a truncation lowers the checkpoint under the same lock
        if log.truncations == view.truncations and not log.is_deleted:
            directory, key = log.log_directory, (log.topic, log.partition)
            try:
                directory.delete_horizons.set(
                    key, delete_horizon_ms, only_if=lambda: not log.is_deleted
                )
            finally:  # if the file was not written, memory has it
                directory.cleaner_offsets.set(key, end_offset, only_if=lambda: not log.is_deleted)


def cleaning_view(log: LogState) -> CleaningView:
    """The view of a log at this moment. Only on the thread that changes the log."""
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
