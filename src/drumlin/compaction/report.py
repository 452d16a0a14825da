"""How cleaning stands, as plain values for JSON: the broker and the command line say the same.

Names carry their unit; a number that is not known is None. Pure.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from drumlin.compaction.pool import LogStatus, Totals
from drumlin.compaction.statistics import CleaningStatistics

Fields = dict[str, Any]


def describe_cleaning(done: CleaningStatistics) -> Fields:
    """One cleaning, made or simulated."""
    fields = dataclasses.asdict(done)
    fields |= {
        # With all that is waited for, as the disk; `seconds` is the work alone.
        "took_ms": done.ended_ms - done.started_ms,
        "seconds": done.seconds,
        "bytes_freed": done.bytes_freed,
        "records_removed": done.records_read - done.records_written,
        "bytes_per_second": done.bytes_per_second,
        "map_utilisation": done.map_utilisation,
    }
    return fields


def describe_status(topic: str, partition: int, log_dir: str, status: LogStatus) -> Fields:
    """How it stands with one compacted log."""
    cleanable = status.cleanable
    return {
        "topic": topic,
        "partition": partition,
        "log_dir": log_dir,
        "tail_bytes": cleanable.clean_bytes,
        "head_bytes": cleanable.cleanable_bytes,
        "dirty_ratio": cleanable.dirty_ratio,
        "first_dirty_offset": cleanable.first_dirty_offset,
        "first_uncleanable_offset": cleanable.first_uncleanable_offset,
        "overdue_ms": cleanable.overdue_ms,
        "is_being_cleaned": status.is_being_cleaned,
        "uncleanable_because": status.uncleanable_because,
        "last_cleaning": None if status.last is None else describe_cleaning(status.last),
    }


def describe_totals(totals: Totals) -> Fields:
    """What was done since the broker started."""
    return {
        field.name: getattr(totals, field.name)
        for field in dataclasses.fields(totals)
        if field.name != "by_log"
    }
