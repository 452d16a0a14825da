"""Decides whether a table read from a log up to an offset is exactly the log's state there. Pure.

A cleaner removes records that have a later one with the same key. A reader that meets such a gap
has missed a value. Until it reads the later record, its table is not the state at any offset. These
later records lie before the log's current end offset, and before the offset up to which the leader
reports that it has cleaned.

Tombstones are removed, too, but only after `delete.retention.ms`. A reader that was at the log's
end within that time has missed none. A reader with a larger lag may keep a deleted key forever, so
it must load the table again.
"""

from __future__ import annotations

from typing import Final

from drumlin.client.errors import StateNotExact
from drumlin.client.state.state_claims import Claim, LogFacts, why_deletions_may_lack
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.exact_from import UNKNOWN_YET

_EXACT: Final = -1


class Exactness:
    """The exactness of one partition. `claim`: facts about its log from before the first read."""

    def __init__(self, place: TopicPartition, claim: Claim) -> None:
        self.place = place
        #: `claim.since_ms` is the last time at which everything in the log had been read.
        self.claim = claim
        self.position = claim.end_offset
        self._exact_from = _EXACT

    @property
    def is_exact(self) -> bool:
        """Whether the table is exactly the log's state at `position`."""
        return self.position >= self._exact_from

    def read_to(self, end_offset: int, since_ms: float) -> None:
        """Record that the reader is at `end_offset`, at or after the log's end at `since_ms`."""
        self.position = end_offset
        if since_ms > self.claim.since_ms:
            self.claim = self.claim._replace(since_ms=int(since_ms))

    def met_gap(self, facts: LogFacts, end_offset: int, of_epoch: int, now_ms: int) -> None:
        """Record that there was a gap in the records that were read.

        Args:
            facts, end_offset: the leader's current facts about its log, and the log's end offset.
            of_epoch: the leader epoch in which the gap was read.
            now_ms: the time, by the same clock as `since_ms`.

        Raises:
            StateNotExact: a deletion may have been missed.
        """
        claim = self.claim
        told = (facts.exact_from, facts.deletion_drops)
        is_same = facts.leader_epoch == claim.leader_epoch
        if told[0] is None or not is_same or told[1] != claim.deletion_drops:
            why = why_deletions_may_lack(claim, facts, now_ms) if facts.is_compacted else None
            if why is not None:
                raise StateNotExact(*self.place, self.position, facts.exact_from, why)
            self.claim = claim._replace(
                leader_epoch=facts.leader_epoch, deletion_drops=facts.deletion_drops
            )
        is_told = facts.exact_from not in (None, UNKNOWN_YET) and of_epoch == facts.leader_epoch
        bound = facts.exact_from if is_told and facts.exact_from is not None else end_offset
        self._exact_from = max(self._exact_from, bound)
