"""The clean stop of one log: afterwards the next start finds all it needs without recovering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.storage.producer_snapshot import encode_snapshot, snapshot_path

if TYPE_CHECKING:
    from drumlin.storage.partition_log import PartitionLog

_CHEAP_TO_REPLAY_BYTES: Final = 16 * 1024


def complete(log: PartitionLog) -> None:
    """Have the active segment, and what is known of producers, ready for the last flush.

    Producers and timestamps at the end of a small segment are found again by reading it, unless
    its records were deleted; an idle partition need not spend disk blocks on them.
    """
    active, end_offset = log.segments.active, log.log_end_offset
    if active.size <= _CHEAP_TO_REPLAY_BYTES and log.log_start_offset <= active.base_offset:
        active.release_set_aside()
        return
    active.seal()
    active.sync()
    if not log.log_directory.files.exists(snapshot_path(log.path, end_offset)):
        producers = encode_snapshot(log.producer_state.producers())
        log.durability.note_snapshot(end_offset, producers)
