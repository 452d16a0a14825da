"""Writing the checkpoints of a log dir.

Entries of deleted logs are dropped. Entries of logs that exist but could not be loaded are always
kept: without its recovery point such a log would be recovered, and maybe cut, from offset 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from drumlin.storage.directory.checkpoints import Checkpoint, PartitionOffsets
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.log.partition_log import PartitionLog

Logs = Mapping[tuple[str, int], PartitionLog]


def write_checkpoints(directory: LogDirectory, logs: Callable[[], Logs]) -> None:
    """Write recovery points, log start offsets, high watermarks and the other checkpoints. Blocks.

    Raises:
        OSError: the device fails.
    """
    not_loaded = directory.not_loaded.copy()

    def kept(checkpoint: Checkpoint) -> dict[tuple[str, int], int]:
        offsets = checkpoint.read()
        return {key: offsets[key] for key in not_loaded & offsets.keys()}

    recovery_points = kept(directory.recovery_points)
    log_start_offsets = kept(directory.log_start_offsets)
    high_watermarks = kept(directory.high_watermarks)
    kept_deletions = kept(directory.kept_deletions)
    exact_states = kept(directory.exact_states)

    def current_recovery_points() -> PartitionOffsets:
        reached = recovery_points | {key: log.recovery_point for key, log in logs().items()}
        # Written after the recovery points are read and before they are written, since a start
        # does not search for gaps below recovery points.
        directory.kept_deletions.write(current_kept_deletions)
        return reached

    def current_log_start_offsets() -> PartitionOffsets:
        return log_start_offsets | {
            key: log.log_start_offset
            for key, log in logs().items()
            if log.log_start_offset > log.segments.first.base_offset
        }

    def current_high_watermarks() -> PartitionOffsets:
        return high_watermarks | {key: log.high_watermark for key, log in logs().items()}

    def current_kept_deletions() -> PartitionOffsets:
        return kept_deletions | {
            key: kept_from
            for key, log in logs().items()
            if (kept_from := log.deletions_kept_after_crash) or log.config.is_compacted
        }

    def current_exact_states() -> PartitionOffsets:
        return exact_states | {
            key: log.exact_from
            for key, log in logs().items()
            if log.config.is_compacted or log.exact_from
        }

    def current_unclean() -> PartitionOffsets:
        return dict.fromkeys(directory.in_disorder & (logs().keys() | not_loaded), 0)

    directory.unclean_logs.write(current_unclean)
    directory.recovery_points.write(current_recovery_points)
    directory.log_start_offsets.write(current_log_start_offsets)
    directory.delete_horizons.keep(lambda: logs().keys() | not_loaded)
    directory.cleaner_offsets.keep(lambda: logs().keys() | not_loaded)
    directory.exact_states.write(current_exact_states)
    directory.high_watermarks.write(current_high_watermarks)
