"""Old segments leave a log: those that retention no longer keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drumlin.storage.log_state import LogState
from drumlin.storage.producer_snapshot import snapshot_path
from drumlin.storage.retention import deletable_segments

#: Each is a handful of files that are renamed: half a turn for all of them.
_AT_ONCE: Final = 4


def delete_old_segments(
    log: LogState, now_ms: int, end_offset: int | None, roll: Callable[[int, int], object]
) -> list[str]:
    """Let go of some of the segments up to `end_offset` (default: all), until there are no more.

    Each takes some renames, and there may be thousands. None go while segments are about to be
    exchanged: a crash would bring back what is in the new ones of them.

    Args:
        roll: begins a new segment at an offset, where the active one goes too.

    Returns:
        Files that are to be removed later: of each segment at least one.
    """
    if not log.swaps.lock.acquire(blocking=False):
        log.swaps.retention_waits = True
        return []
    try:
        log.swaps.retention_waits = log.swaps.holds_segments
        if log.swaps.retention_waits:
            return []
        visible = log.log_end_offset if end_offset is None else end_offset
        gone = deletable_segments(
            log.segments,
            log.config,
            log.log_start_offset,
            visible,
            now_ms,
            most=_AT_ONCE,
            may_block=False,
        )
        if not gone:
            return []
        if gone[-1] is log.segments.active:
            roll(log.log_end_offset, now_ms)
        log.segments.replace(gone, ())
        log.delete_records_before(log.segments.first.base_offset)
        log.durability.forget(gone)
        renamed = []
        for segment in gone:
            renamed += segment.mark_deleted()
            log.log_directory.files.remove(snapshot_path(log.path, segment.base_offset))
        return renamed
    finally:
        log.swaps.lock.release()
