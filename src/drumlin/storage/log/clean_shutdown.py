"""The clean shutdown of one log, after which the next start loads it without recovery."""

from __future__ import annotations

from typing import Final

from drumlin.storage.log.log_state import LogState
from drumlin.storage.producers.producer_snapshot import snapshot_path

_CHEAP_TO_REPLAY_BYTES: Final = 16 * 1024


def complete(log: LogState) -> None:
    """Prepare the active segment and the producer state for the last flush.

    For a small segment neither a snapshot nor a time index entry is written, to save disk blocks:
    the next
    start finds producers and timestamps by reading it, unless their records were deleted.
    """
    active, end_offset = log.segments.active, log.log_end_offset
    is_small = active.size <= _CHEAP_TO_REPLAY_BYTES
    if is_small:
        active.rest()
    else:
        active.seal()
        active.sync()
    if not (is_small and _are_producers_found(log)) and not _has_snapshot(log, end_offset):
        log.durability.note_snapshot(end_offset, log.producer_state.freeze())


def _are_producers_found(log: LogState) -> bool:
    """Whether the active segment and a snapshot at its start determine the producer state."""
    base_offset = log.segments.active.base_offset
    if log.log_start_offset > base_offset:
        return False
    return base_offset == 0 or not len(log.producer_state) or _has_snapshot(log, base_offset)


def _has_snapshot(log: LogState, offset: int) -> bool:
    """Whether there is a snapshot, or one is noted, which the last flush writes."""
    path = snapshot_path(log.path, offset)
    return log.durability.has_noted_snapshot(offset) or log.log_directory.files.exists(path)
