"""How far a round came that did not come to its end, so that the next one goes on there.

The segments before `next_offset` are cleaned by all that lay before `round_end_offset` when the
round began. What goes on there looks at the same records, and at no later ones: else later records
would count as looked at, while those that they have superseded lie before `next_offset`. So
together the two are one round, and only its end moves the cleaner checkpoint.

Kept in memory: after a restart a round begins anew.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.compaction.passes.transactions import OpenTransactions
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.storage.log.cleaning_view import CleaningView
from drumlin.storage.log.partition_log import PartitionLog


class RoundProgress(NamedTuple):
    """See the module."""

    log: PartitionLog
    truncations: int
    #: The cleaner checkpoint, None without one: the round's first dirty offset depends on it.
    checkpoint_offset: int | None
    round_end_offset: int
    next_offset: int
    #: Those of the log at `next_offset`, which batches after it belong to.
    transactions: OpenTransactions
    done: CleaningStatistics

    def is_of(self, log: PartitionLog, view: CleaningView) -> bool:
        """Whether the log is still the one that the round has left."""
        ends = [segment.base_offset for segment in view.segments[1:]]
        return (
            self.log is log
            and self.truncations == view.truncations
            and self.checkpoint_offset == checkpoint_of(log)
            and (self.next_offset in ends or self.next_offset <= view.segments[0].base_offset)
        )


def checkpoint_of(log: PartitionLog) -> int | None:
    """Where the last whole round ended; None if there was none."""
    return log.log_directory.cleaner_offsets.get((log.topic, log.partition))
