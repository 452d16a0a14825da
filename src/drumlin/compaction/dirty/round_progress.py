"""The progress of an interrupted round, from which the next round continues.

The segments before `next_offset` are clean with respect to all records below `round_end_offset`.
The continued round must read the same records and no later ones: otherwise a later record would
count as clean while an earlier record with the same key, before `next_offset`, remains. So both
parts form one round, and only the end of that round advances the cleaner checkpoint.

Progress is kept in memory only: after a restart a round starts from the checkpoint.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.compaction.passes.transactions import OpenTransactions
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.storage.log.cleaning_view import CleaningView
from drumlin.storage.log.partition_log import PartitionLog


class RoundProgress(NamedTuple):
    """The state of a log and of a round when the round was interrupted."""

    log: PartitionLog
    truncations: int
    #: The cleaner checkpoint, or None. The round's first dirty offset depends on the checkpoint.
    checkpoint_offset: int | None
    round_end_offset: int
    next_offset: int
    #: The transactions that are open at `next_offset`.
    transactions: OpenTransactions
    done: CleaningStatistics

    def is_of(self, log: PartitionLog, view: CleaningView) -> bool:
        """Whether the progress is still valid for the log."""
        ends = [segment.base_offset for segment in view.segments[1:]]
        return (
            self.log is log
            and self.truncations == view.truncations
            and self.checkpoint_offset == checkpoint_of(log)
            and (self.next_offset in ends or self.next_offset <= view.segments[0].base_offset)
        )


def checkpoint_of(log: PartitionLog) -> int | None:
    """The cleaner checkpoint, where the last complete round ended; None if there was none."""
    return log.log_directory.cleaner_offsets.get((log.topic, log.partition))
