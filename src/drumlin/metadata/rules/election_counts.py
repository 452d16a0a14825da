"""Elections made by this process: counted for metrics, and logged if records may be lost.

Makes no decisions.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.clock import Clock, SystemClock
from drumlin.metadata.image import NO_LEADER, PartitionId, PartitionState
from drumlin.metadata.rules.decisions import Alive, Decision, TopicRules
from drumlin.metadata.rules.election_log import BY_CONFIG, log_election
from drumlin.metadata.rules.eligible import Election, election
from drumlin.metadata.rules.leadership import NO_EPOCH


class ElectionCounts:
    """Counts of elections since the start of the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.elections = 0
        #: Elections of a replica that was neither in sync nor eligible.
        self.unclean = 0
        #: Elections of a replica that was complete before an unclean stop; these do not count as
        #: unclean.
        self.recoveries = 0
        #: The total time that partitions have waited for the elected leaders.
        self.seconds = 0.0

    def begin(self, since: float | None = None, why: str = BY_CONFIG) -> Elections:
        """Begin elections that are decided together.

        since: the time when it became known that partitions need another leader; None means now.
        why: the reason for allowing a replica that may lack records, for the log.
        """
        return Elections(self, self.clock.monotonic() if since is None else since, why)


class Elections:
    """The elections among partitions that are decided together."""

    def __init__(self, counts: ElectionCounts, since: float, why: str) -> None:
        self._counts = counts
        self._since = since
        self._why = why
        #: Partition -> the topic, the state before, and the state after.
        self._decided: dict[PartitionId, tuple[str, PartitionState, PartitionState]] = {}

    def noting(self, decide: Decision) -> Decision:
        """The decision, wrapped to note its elections. A store may call it once for each
        attempt.
        """

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
        """Count the elections that were stored; another broker may have decided otherwise."""
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
            log_election(topic, before, after, self._why)


def _leadership(state: PartitionState) -> tuple[int, int]:
    return state.leader, state.leader_epoch
