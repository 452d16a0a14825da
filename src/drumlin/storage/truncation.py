"""Truncating a log, as a follower does when its records differ from its leader's.

The recovery point is lowered first, durably: after a crash, what was written later in place of the
removed records must not be trusted.
"""

from __future__ import annotations

from drumlin.storage.log_state import LogState
from drumlin.storage.producer_replay import follow_segment, load_latest_snapshot
from drumlin.storage.segment import Segment


def truncate(log: LogState, offset: int) -> None:
    """Remove every batch that reaches to `offset` or beyond."""
    if offset >= log.log_end_offset:
        return
    if offset <= log.log_start_offset:
        start_anew(log, offset)
        return
    with log.swaps.lock, log.durability.lock:
        _begin(log)
        place = log.segments.from_offset(offset)[0].find(offset)
        if place is not None:  # the batch that holds `offset` is removed as a whole
            offset = min(offset, place.header.base_offset)
        _lower_checkpoints(log, offset)
        gone = [segment for segment in log.segments if segment.base_offset > offset]
        log.segments.replace(gone, ())
        _remove(log, gone)
        log.segments.active.truncate_to(offset)
        _reload(log, offset)


def start_anew(log: LogState, offset: int) -> None:
    """Remove everything; the next record gets `offset`."""
    with log.swaps.lock, log.durability.lock:
        _begin(log)
        _lower_checkpoints(log, offset)
        gone = list(log.segments)
        _remove(log, gone)
        created_ms = log.log_directory.clock.wall_ms()
        segment = Segment.create(log.path, offset, log.log_directory.open_files, created_ms)
        log.segments.replace(gone, (segment,))
        log.log_start_offset = offset
        _reload(log, offset)


def skip_to(log: LogState, offset: int) -> None:
    """Give the next record `offset`, durably: the offsets below were given out before, and lost."""
    if log.size_bytes == 0:
        start_anew(log, offset)
    else:
        files, active = log.log_directory.files, log.segments.active
        created_ms = log.log_directory.clock.wall_ms()
        segment = Segment.create(log.path, offset, log.log_directory.open_files, created_ms)
        if active.size:
            active.seal()
            active.sync()
            log.segments.add(segment)
        else:
            log.segments.replace((active,), (segment,))
            active.remove_files()
        files.sync_directory(log.path)
        log.log_end_offset = log.producer_state.end_offset = offset
    log.durability.recovery_point = offset


def settle(log: LogState, end_offset: int, recovery_point: int) -> None:
    """Set the log end offset, found by loading or truncating, and what depends on it."""
    log.log_end_offset = log.producer_state.end_offset = end_offset
    log.high_watermark_is_at_most(end_offset)
    log.durability.recovery_point = min(recovery_point, end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.log_directory.cleaner_offsets.lower((log.topic, log.partition), end_offset)
    if end_offset < log.log_start_offset:
        # No readable record is left. Offsets below the log start must not be given out again.
        start_anew(log, log.log_start_offset)


def _begin(log: LogState) -> None:
    """Make a cleaning under way worthless, and see that no crash puts it to use."""
    log.truncations += 1
    log.swaps.settle()


def _lower_checkpoints(log: LogState, offset: int) -> None:
    key = log.topic, log.partition
    log.durability.drop_from(offset)  # first: a checkpoint written meanwhile takes it from here
    log.log_directory.recovery_points.lower(key, offset)
    log.log_directory.cleaner_offsets.lower(key, offset)


def _remove(log: LogState, gone: list[Segment]) -> None:
    log.durability.forget(gone)
    for segment in gone:
        segment.remove_files()


def _reload(log: LogState, offset: int) -> None:
    """Bring the state of the log in line with the records that are left."""
    state = log.producer_state
    files = log.log_directory.files
    files.sync_directory(log.path)  # removed files must not come back, nor new ones vanish
    load_latest_snapshot(state, log.path, files, log.log_start_offset, offset)
    for segment in log.segments.from_offset(state.end_offset):
        follow_segment(state, segment)
    end_offset = log.segments.active.sound_end_offset()
    assert end_offset is not None, "cut between two batches"
    settle(log, end_offset, log.durability.recovery_point)
