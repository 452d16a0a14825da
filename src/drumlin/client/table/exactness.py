"""Whether a table that was read from a log up to an offset is the log's state there. Decides only.

A cleaner removes records that have later ones. Who meets the gap that it left has missed a value,
and learns the later one when he comes to it: until then he has the state of no offset. All later
ones lie before the log's end of that moment, and no later than the leader says that it has cleaned.

Tombstones are removed, too, but not before `delete.retention.ms` have passed. Who was at the log's
end less than that ago has missed none. Who lags more may keep a key for good that was deleted, and
must load the table again.
"""

from __future__ import annotations

from typing import Final

from drumlin.client.errors import StateNotExact
from drumlin.client.state.state_claims import Claim, LogFacts, why_deletions_may_lack
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.exact_from import UNKNOWN_YET

_EXACT: Final = -1


class Exactness:
    """Of one partition. `claim`: what was known of its log before its first record was read."""

    def __init__(self, place: TopicPartition, claim: Claim) -> None:
        self.place = place
        #: `since_ms`: when the log was known to end where it had been read to, or before.
        self.claim = claim
        self.position = claim.end_offset
        self._exact_from = _EXACT

    @property
    def is_exact(self) -> bool:
        """Whether the state is that of `position`."""
        return self.position >= self._exact_from

    def read_to(self, end_offset: int, since_ms: float) -> None:
        """Records up to there were read; at `since_ms` the log ended before them, at the latest."""
        self.position = end_offset
        if since_ms > self.claim.since_ms:
            self.claim = self.claim._replace(since_ms=int(since_ms))

    def met_gap(self, facts: LogFacts, end_offset: int, of_epoch: int, now_ms: int) -> None:
        """Records were missing among those that were read.

        Args:
            facts, end_offset: what the leader says now of its log, and where that ends.
            of_epoch: of the leader from which the gap was read.
            now_ms: in the time of `since_ms`.

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
