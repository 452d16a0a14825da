"""Old segments leave a log: those that retention no longer keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from drumlin.storage.producer_snapshot import snapshot_path
from drumlin.storage.retention import deletable_segments
from drumlin.turns import Work
from drumlin.wire.errors import KafkaError

if TYPE_CHECKING:
    from drumlin.storage.doomed_files import DoomedFiles
    from drumlin.storage.partition_log import PartitionLog


#: Each is a handful of files that are renamed: half a turn for all of them.
_AT_ONCE: Final = 4

#: Is told of a log.
Tell = Callable[["PartitionLog"], object]


def tell_nobody(_: PartitionLog) -> None:
    """For who does not want to know."""


def delete_from_all(
    logs: Iterable[PartitionLog], now_ms: int, doomed: DoomedFiles, tell: Tell
) -> Work[None]:
    """Let go of old segments in all `logs`; `tell` is told of those that begin later now.

    What is appended meanwhile is left for the next time: it may be as old, and there may be more
    and more of it.
    """
    for log in logs:
        with contextlib.suppress(KafkaError):  # said where the dir failed
            end_offset = log.log_end_offset
            while not log.is_deleted and log.segments.first.base_offset < end_offset:
                paths = _delete_some(log, now_ms, tell)
                if not paths:
                    break
                doomed.add(paths, log.config.file_delete_delay_ms)
                yield
        yield


def _delete_some(log: PartitionLog, now_ms: int, tell: Tell) -> list[str]:
    start_offset = log.log_start_offset
    try:
        return log.delete_old_segments(now_ms)
    finally:
        # Also where a file could not be renamed: the log begins later all the same.
        if log.log_start_offset != start_offset:
            tell(log)


def delete_old_segments(
    log: PartitionLog, now_ms: int, end_offset: int | None, roll: Callable[[int, int], object]
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
