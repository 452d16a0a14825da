"""Elections that this process has made: counted for the metrics, and said where records are lost.

Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.clock import Clock, SystemClock
from drumlin.metadata.image import NO_LEADER, PartitionId, PartitionState
from drumlin.metadata.rules.decisions import Alive, Decision, TopicRules
from drumlin.metadata.rules.election_news import BY_CONFIG, say_how_elected
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

    def begin(self, since: float | None = None, why: str = BY_CONFIG) -> Elections:
        """Elections that are decided together.

        since: when it was known that partitions need another leader; None: now.
        why: a replica that may lack records may be elected.
        """
        return Elections(self, self.clock.monotonic() if since is None else since, why)


class Elections:
    """Partitions that are decided together: which of them get another leader."""

    def __init__(self, counts: ElectionCounts, since: float, why: str) -> None:
        self._counts = counts
        self._since = since
        self._why = why
        #: By partition: the topic, the state before and after.
        self._decided: dict[PartitionId, tuple[str, PartitionState, PartitionState]] = {}

    def noting(self, decide: Decision) -> Decision:
        """The same decision, which notes elections; a store may ask it again for each attempt."""

        def noted(
            partition: PartitionId, state: PartitionState, rules: TopicRules, alive: Alive
        ) -> PartitionState:
            after = decide(partition, state, rules, alive)
            is_led_anew = after.leader not in (state.leader, NO_LEADER)
            if is_led_anew and state.leader_epoch != NO_EPOCH:
                self._decided[partition] = rules.topic, state, after
            return after

        return noted

    def written(self, stored: Mapping[PartitionId, PartitionState]) -> None:
        """Count those that are led now as was decided. The rest may have been changed by others."""
        took = self._counts.clock.monotonic() - self._since
        for partition, state in stored.items():
            topic, before, after = self._decided.get(partition, ("", state, state))
            kind = election(before, after)
            if kind is None or _leadership(state) != _leadership(after):
                continue
            self._counts.elections += 1
            self._counts.unclean += kind is Election.UNCLEAN
            self._counts.recoveries += kind is Election.RECOVERY
            self._counts.seconds += took
            say_how_elected(topic, before, after, self._why)


def _leadership(state: PartitionState) -> tuple[int, int]:
    return state.leader, state.leader_epoch
