"""Deleting the expired segments of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drumlin.storage.log.log_state import LogState
from drumlin.storage.log.retention import deletable_segments
from drumlin.storage.producers.producer_snapshot import snapshot_path

#: Deleting a segment renames several files: this many segments take half a turn of the loop.
_AT_ONCE: Final = 4


def delete_old_segments(
    log: LogState, now_ms: int, end_offset: int | None, roll: Callable[[int, int], object]
) -> list[str]:
    """Delete some expired segments below `end_offset` (default: the high watermark).

    There may be thousands: the caller repeats this until none is left. Nothing is deleted while a
    swap is pending, as after a crash the swapped-in segments would bring deleted records back, nor
    while the log is being truncated.

    Args:
        roll: begins a new segment at an offset, if the active one is deleted, too.

    Returns:
        Files to be removed later, at least one of each deleted segment.
    """
    if not log.swaps.lock.acquire(blocking=False):
        log.swaps.retention_waits = True
        return []
    try:
        log.swaps.retention_waits = log.swaps.holds_segments or log.is_being_cut or log.is_moving
        if log.swaps.retention_waits:
            return []
        visible = log.high_watermark if end_offset is None else end_offset
        gone = deletable_segments(
            log.segments,
            log.config,
            log.log_start_offset,
            visible,
            now_ms,
            most=_AT_ONCE,
            may_block=False,
            may_be_active=visible >= log.log_end_offset,
        )
        if not gone:
            return []
        if gone[-1] is log.segments.active:
            roll(log.log_end_offset, log.log_directory.clock.wall_ms())
        log.segments.replace(gone, ())
        log.delete_records_before(log.segments.first.base_offset)
        log.durability.forget(gone)
        renamed = []
        for segment in gone:
            renamed += segment.mark_deleted()
            log.log_directory.files.remove(snapshot_path(log.path, segment.base_offset))
        log.leader_epochs.truncate_from_start(log.segments.first.base_offset)
        return renamed
    finally:
        log.swaps.lock.release()
