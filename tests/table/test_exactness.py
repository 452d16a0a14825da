"""When a table that has met a gap is exact again, and when it must be loaded again."""

from __future__ import annotations

import pytest

from drumlin.client.errors import StateNotExact
from drumlin.client.state.state_claims import Claim, LogFacts
from drumlin.client.table.exactness import Exactness
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.exact_from import UNKNOWN_YET

PLACE = TopicPartition("t", 0)
EPOCH = 3
LONG_MS = 1_000_000
#: A broker of Drumlin, which has cleaned up to 150; and one of Kafka, which does not tell.
TOLD = LogFacts(0, -1, 150, EPOCH, 0, LONG_MS)
UNTOLD = LogFacts(0, 200, None, EPOCH, 0, LONG_MS)


def loaded() -> Exactness:
    """Read up to 100."""
    return Exactness(PLACE, Claim(100, "inexact", EPOCH, 1000, 0))


def test_a_log_without_gaps_is_exact_everywhere() -> None:
    state = loaded()
    assert state.is_exact
    state.read_to(120, 0)
    assert (state.is_exact, state.position, state.claim.since_ms) == (True, 120, 1000)


@pytest.mark.parametrize(
    ("facts", "of_epoch", "exact_from"),
    [
        (TOLD, EPOCH, 150),
        (TOLD, EPOCH - 1, 200),  # what another leader removed this one does not know
        (TOLD._replace(exact_from=UNKNOWN_YET), EPOCH, 200),
        (TOLD._replace(leader_epoch=EPOCH + 1), EPOCH + 1, 150),
        (UNTOLD, EPOCH, 200),
    ],
)
def test_after_a_gap_it_is_exact_where_the_replacements_are(
    facts: LogFacts, of_epoch: int, exact_from: int
) -> None:
    state = loaded()
    state.read_to(120, 2000)
    state.met_gap(facts, 200, of_epoch, 3000)
    for offset in (120, exact_from - 1, exact_from):
        state.read_to(offset, 0)
        assert state.is_exact == (offset >= exact_from), offset


@pytest.mark.parametrize("facts", [TOLD._replace(deletion_drops=1), UNTOLD])
def test_tombstones_are_missed_by_who_lags_for_longer_than_they_stay(facts: LogFacts) -> None:
    facts = facts._replace(delete_retention_ms=100_000)
    state = loaded()
    state.read_to(120, 30_000)  # so the log ended there, 30 s ago
    state.met_gap(facts, 200, EPOCH, 60_000)
    with pytest.raises(StateNotExact, match="tombstones"):
        state.met_gap(facts._replace(deletion_drops=2), 200, EPOCH, 120_000)


def test_no_tombstone_was_missed_where_none_was_removed() -> None:
    state = loaded()
    state.read_to(120, 0)
    state.met_gap(TOLD._replace(delete_retention_ms=0), 200, EPOCH, 10**9)
    with pytest.raises(StateNotExact):
        another = TOLD._replace(delete_retention_ms=0, leader_epoch=EPOCH + 1)
        state.met_gap(another, 200, EPOCH + 1, 10**9)
