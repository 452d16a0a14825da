"""Finds the cleanable part of a log, outside the event loop that changes logs.

Thread-safe. The facts are approximate, as the log may change while they are read. The cleaning
itself starts with a consistent `CleaningView`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.compaction.dirty.cleanable import Cleanable, LogFacts, SegmentFacts, cleanable
from drumlin.compaction.dirty.round_progress import checkpoint_of
from drumlin.config.topic import LogConfig
from drumlin.storage.log.cleaning_view import CleaningView
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.segment.segment import Segment

_FOREVER: Final = 2**63 - 1


class Outline(NamedTuple):
    """The facts about a log that decide whether to clean it."""

    segments: tuple[Segment, ...]
    log_start_offset: int
    last_stable_offset: int
    config: LogConfig


def outline(log: PartitionLog) -> Outline:
    """The facts about a log at this moment, approximately."""
    stable = log.high_watermark  # read first, so that all open transactions below it are known
    first_undecided = log.producer_state.first_undecided_offset
    return Outline(
        log.segments.snapshot(),
        log.log_start_offset,
        stable if first_undecided is None else min(stable, first_undecided),
        log.config,
    )


def find_cleanable(log: PartitionLog, view: Outline | CleaningView, now_ms: int) -> Cleanable:
    """The cleanable part of a log.

    Raises:
        OSError, KafkaError: the log's files cannot be read.
    """
    config = view.config
    needs_times = config.min_compaction_lag_ms > 0
    has_deadline = config.max_compaction_lag_ms < _FOREVER
    facts = [
        SegmentFacts(
            segment.base_offset,
            segment.size,
            max(segment.largest_timestamp.timestamp, segment.modified_ms()) if needs_times else 0,
            _begun_ms(segment, previous) if has_deadline else -1,
        )
        for previous, segment in zip((None, *view.segments), view.segments, strict=False)
    ]
    checkpoint = checkpoint_of(log)
    horizon_ms = log.log_directory.delete_horizons.get((log.topic, log.partition))
    return cleanable(
        LogFacts(view.log_start_offset, view.last_stable_offset, checkpoint, facts, horizon_ms),
        now_ms,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )


def _begun_ms(segment: Segment, previous: Segment | None) -> int:
    """The approximate time at which a segment's first record was written.

    A producer may send any timestamp, so the time is limited by the last-modified times of the
    previous segment and of this one.
    """
    modified_ms, timestamp = segment.modified_ms(), segment.first_timestamp
    begun_ms = timestamp if 0 <= timestamp <= modified_ms else modified_ms
    if previous is None:
        return begun_ms
    return max(begun_ms, min(previous.modified_ms(), modified_ms))
