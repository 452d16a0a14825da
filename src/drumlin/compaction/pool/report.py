"""Status and results of cleanings as plain values for JSON, for broker and command line. Pure.

Names end in their unit; an unknown number is None.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from drumlin.compaction.dirty.active_segment import ActiveSegment
from drumlin.compaction.pool.pool import LogStatus, Totals
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.storage.log.cleaning_view import NO_HORIZON

Fields = dict[str, Any]


def describe_cleaning(done: CleaningStatistics) -> Fields:
    """A cleaning that was carried out or simulated."""
    fields = dataclasses.asdict(done)
    fields |= {
        "delete_horizon_ms": _known_horizon(done.delete_horizon_ms),
        "took_ms": done.ended_ms - done.started_ms,
        "bytes_freed": done.bytes_freed,
        "records_removed": done.records_read - done.records_written,
        "bytes_per_second": done.bytes_per_second,
        "map_utilisation": done.map_utilisation,
    }
    return fields


def describe_status(
    topic: str, partition: int, log_dir: str, status: LogStatus, active: ActiveSegment
) -> Fields:
    """The status of one compacted log."""
    cleanable = status.cleanable
    return {
        "topic": topic,
        "partition": partition,
        "log_dir": log_dir,
        "tail_bytes": cleanable.clean_bytes,
        "head_bytes": cleanable.cleanable_bytes,
        "uncleanable_bytes": cleanable.uncleanable_bytes,
        "dirty_ratio": cleanable.dirty_ratio,
        "first_dirty_offset": cleanable.first_dirty_offset,
        "first_uncleanable_offset": cleanable.first_uncleanable_offset,
        "overdue_ms": cleanable.overdue_ms,
        "active_bytes": active.size,
        "active_records": active.records,
        "active_closes": active.closes,
        "is_being_cleaned": status.is_being_cleaned,
        "uncleanable_because": status.uncleanable_because,
        "waits_because": status.waits_because,
        "delete_horizon_ms": _known_horizon(cleanable.delete_horizon_ms),
        "last_cleaning": None if status.last is None else describe_cleaning(status.last),
    }


def _known_horizon(horizon_ms: int | None) -> int | None:
    return None if horizon_ms == NO_HORIZON else horizon_ms


def describe_error(topic: str, partition: int, log_dir: str, error: Exception) -> Fields:
    """The replacement for a status that could not be read."""
    return {"topic": topic, "partition": partition, "log_dir": log_dir, "error": str(error)}


def describe_result(
    topic: str,
    partition: int,
    done: CleaningStatistics | None,
    reason: str | None = None,
    *,
    is_failed: bool = False,
) -> Fields:
    """The result of a requested cleaning or simulation, or the `reason` why there was none."""
    return {
        "topic": topic,
        "partition": partition,
        "cleaning": None if done is None else describe_cleaning(done),
        "reason": reason if done is None else None,
        "is_failed": is_failed,
    }


def describe_totals(totals: Totals) -> Fields:
    """The totals since the broker started."""
    return dataclasses.asdict(totals)
