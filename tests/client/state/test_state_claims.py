"""What makes a state exact, decided without a broker."""

from __future__ import annotations

import pytest

from drumlin.client.errors import RecordsMissing, StateNotExact
from drumlin.client.state.state_claims import LogFacts, check, claim, incomplete

PLACE = ("t", 0)
TOLD = LogFacts(log_start_offset=0, high_watermark=20, exact_from=10, leader_epoch=3)
#: Of an Apache Kafka.
UNTOLD = TOLD._replace(exact_from=None, delete_retention_ms=86_400_000)


def test_from_where_the_broker_tells_it() -> None:
    for end_offset in (10, 15, 20):
        assert claim(PLACE, end_offset, TOLD, 0, is_now=False).basis == "told"


def test_before_that_all_must_be_there() -> None:
    claimed = claim(PLACE, 9, TOLD, 0, is_now=False)
    assert claimed.needs_all
    check(PLACE, claimed, TOLD._replace(exact_from=20, leader_epoch=4), 0)


def test_before_that_something_is_missing() -> None:
    claimed = claim(PLACE, 9, TOLD, 0, is_now=False)
    refused = incomplete(claimed, TOLD.exact_from, RecordsMissing(*PLACE, 4))
    assert "offset 9 can't be read exactly: records are missing from offset 4 on" in str(refused)
    assert refused.exact_from == 10


def test_before_that_where_records_are_deleted() -> None:
    facts = TOLD._replace(log_start_offset=2)
    with pytest.raises(StateNotExact, match="the earliest exact state is at 10") as caught:
        claim(PLACE, 9, facts, 0, is_now=False)
    assert caught.value.exact_from == 10
    claimed = claim(PLACE, 9, facts, 0, is_now=False, allow_inexact=True)
    check(PLACE, claimed, facts._replace(leader_epoch=7), 0)


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (TOLD._replace(exact_from=16), "overtaken"),
        (TOLD._replace(exact_from=None), "overtaken"),
        (TOLD._replace(leader_epoch=4), "another leader"),
    ],
)
def test_what_happens_while_it_is_read(later: LogFacts, why: str) -> None:
    claimed = claim(PLACE, 15, TOLD, 0, is_now=False)
    check(PLACE, claimed, TOLD._replace(exact_from=15), 0)
    with pytest.raises(StateNotExact, match=why):
        check(PLACE, claimed, later, 0)


def test_a_clock_that_is_set_back_while_it_is_read() -> None:
    claimed = claim(PLACE, 15, TOLD, 10_000_000, is_now=False)
    facts = TOLD._replace(deletion_drops=1, delete_retention_ms=86_400_000)
    check(PLACE, claimed, facts, 9_950_000)  # clocks of two machines
    with pytest.raises(StateNotExact, match="set back"):
        check(PLACE, claimed, facts, 9_900_000)


def test_tombstones_that_go_while_it_is_read() -> None:
    """Whoever reads for longer than they stay may have read what they have deleted."""
    claimed = claim(PLACE, 15, TOLD, 0, is_now=False)
    later = TOLD._replace(deletion_drops=1, delete_retention_ms=65_000)
    check(PLACE, claimed, later, 5000)
    check(PLACE, claimed, later._replace(deletion_drops=0), 5001)
    with pytest.raises(StateNotExact, match=r"delete.retention.ms must be 65001 or more"):
        check(PLACE, claimed, later, 5001)
    claimed = claim(PLACE, 20, UNTOLD, 0, is_now=True)
    later = UNTOLD._replace(delete_retention_ms=65_000)
    check(PLACE, claimed, later, 5000)
    with pytest.raises(StateNotExact, match=r"delete.retention.ms must be 65001 or more"):
        check(PLACE, claimed, later, 5001)


def test_the_present_of_a_broker_that_does_not_tell() -> None:
    claimed = claim(PLACE, 20, UNTOLD, 0, is_now=True)
    check(PLACE, claimed, UNTOLD, 5000)
    grown = UNTOLD._replace(high_watermark=21)
    with pytest.raises(StateNotExact, match="has grown while it was read"):
        check(PLACE, claimed, grown, 5000)
    check(PLACE, claimed, grown._replace(is_compacted=False), 5000)
    with pytest.raises(StateNotExact, match="another leader"):
        check(PLACE, claimed, UNTOLD._replace(leader_epoch=4), 5000)
    young = grown._replace(min_compaction_lag_ms=65_000, has_append_times=True)
    check(PLACE, claimed, young, 5000)
    for not_enough in (
        young._replace(min_compaction_lag_ms=64_999),
        young._replace(has_append_times=False),  # producers may say that a record is old
    ):
        with pytest.raises(StateNotExact, match=r"min.compaction.lag.ms of 65000"):
            check(PLACE, claimed, not_enough, 5000)


def test_the_past_of_a_broker_that_does_not_tell() -> None:
    assert claim(PLACE, 15, UNTOLD, 0, is_now=False).needs_all
    with pytest.raises(StateNotExact, match="records before offset 1 are deleted"):
        claim(PLACE, 15, UNTOLD._replace(log_start_offset=1), 0, is_now=False)
