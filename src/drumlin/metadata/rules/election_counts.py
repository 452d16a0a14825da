"""How often partitions were given another leader by this process, and how long they waited for one.

For the metrics; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.clock import Clock, SystemClock
from drumlin.metadata.image import NO_LEADER, PartitionId, PartitionState
from drumlin.metadata.rules.eligible import Election, election
from drumlin.metadata.rules.leadership import NO_EPOCH


class ElectionCounts:
    """Since the start of the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.elections = 0
        #: Those of a replica that was neither in sync nor eligible.
        self.unclean = 0
        #: Those of one that was complete before an unclean stop: not among the unclean ones.
        self.recoveries = 0
        #: What all of them took together.
        self.seconds = 0.0

    def begin(self, since: float | None = None) -> Elections:
        """Partitions are decided on; `since` is when it was known that they need a leader."""
        return Elections(self, self.clock.monotonic() if since is None else since)


class Elections:
    """Partitions that are decided on together: which of them another broker leads by it."""

    def __init__(self, counts: ElectionCounts, since: float) -> None:
        self._counts = counts
        self._since = since
        self._decided: dict[PartitionId, tuple[PartitionState, PartitionState]] = {}

    def decided(
        self, partition: PartitionId, before: PartitionState, after: PartitionState
    ) -> None:
        """What is to be written, maybe once more: the answer of an attempt may have been lost."""
        is_led_anew = after.leader not in (before.leader, NO_LEADER)
        if is_led_anew and before.leader_epoch != NO_EPOCH:
            self._decided[partition] = before, after

    def written(self, stored: Mapping[PartitionId, PartitionState]) -> None:
        """Count those that are led now as was decided."""
        took = self._counts.clock.monotonic() - self._since
        for partition, (before, after) in self._decided.items():
            state = stored.get(partition)
            if state is None or _leadership(state) != _leadership(after):
                continue
            self._counts.elections += 1
            self._counts.unclean += election(before, after) is Election.UNCLEAN
            self._counts.recoveries += election(before, after) is Election.RECOVERY
            self._counts.seconds += took


def _leadership(state: PartitionState) -> tuple[int, int]:
    return state.leader, state.leader_epoch
