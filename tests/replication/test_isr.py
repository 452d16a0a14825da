"""Who is in sync, where followers say nothing as there is nothing new for them."""

from __future__ import annotations

from dataclasses import replace

from drumlin.metadata.image import PartitionState
from drumlin.replication.isr import InSyncReplicas

LAG_MAX_MS = 1000.0
LEADER, FOLLOWER, OTHER = 1, 2, 3


class Replicas:
    """Of a partition whose leader looks at them at times that the tests say."""

    def __init__(self, isr: tuple[int, ...], end_offset: int = 10) -> None:
        self.epochs: dict[int, int | None] = {FOLLOWER: 0, OTHER: 0}
        state = PartitionState(0, LEADER, 0, (LEADER, FOLLOWER, OTHER), isr, 5)
        self.isr = InSyncReplicas(
            LEADER,
            state,
            end_offset,
            0.0,
            lambda: LAG_MAX_MS,
            lambda node_id, epoch: (
                self.epochs[node_id] is not None and epoch in (-1, self.epochs[node_id])
            ),
        )

    def fetched(self, node_id: int, offset: int, end_offset: int, now_ms: float) -> None:
        epoch = self.epochs[node_id]
        assert epoch is not None
        assert self.isr.fetched(node_id, epoch, offset, 0, end_offset, now_ms)


def test_a_follower_that_had_all_lags_from_the_next_record_on() -> None:
    replicas = Replicas((LEADER, FOLLOWER))
    replicas.fetched(FOLLOWER, 10, 10, 0)
    for now_ms in range(500, 100_000, 500):
        assert replicas.isr.shrinkage(10, now_ms) is None
    # A record comes, and the leader looks before the follower has fetched it.
    assert replicas.isr.shrinkage(11, 100_000) is None
    assert replicas.isr.shrinkage(11, 100_500) is None
    wish = replicas.isr.shrinkage(11, 101_000)
    assert wish is not None
    assert [each for each, _ in wish.isr] == [LEADER]


def test_one_that_lacks_records_lags_though_there_are_no_more() -> None:
    replicas = Replicas((LEADER, FOLLOWER))
    replicas.fetched(FOLLOWER, 9, 10, 0)
    assert replicas.isr.shrinkage(10, 900) is None
    assert replicas.isr.shrinkage(10, 1100) is not None


def test_who_is_not_known_yet_is_refused_until_it_is() -> None:
    """The news of it may come after its first fetch, and a lie looks the same until then."""
    replicas = Replicas((LEADER, FOLLOWER))
    replicas.fetched(FOLLOWER, 5, 10, 0)
    for epoch in (2**60, 1, -1):
        assert not replicas.isr.fetched(FOLLOWER, epoch, 10, 0, 10, 0)
        assert replicas.isr.high_watermark(5, 10, 0) == 5
    replicas.fetched(FOLLOWER, 6, 10, 0)  # none of them is taken for its successor
    replicas.epochs[FOLLOWER] = 1
    assert not replicas.isr.fetched(FOLLOWER, 0, 10, 0, 10, 0)  # it has been replaced
    replicas.fetched(FOLLOWER, 10, 10, 0)
    assert replicas.isr.high_watermark(5, 10, 0) == 10


def test_an_epoch_that_is_lower_is_another_process_if_it_is_alive() -> None:
    """ZooKeeper was put back from a backup: else it would be refused for ever."""
    replicas = Replicas((LEADER, FOLLOWER))
    replicas.epochs[FOLLOWER] = 7
    replicas.fetched(FOLLOWER, 5, 10, 0)
    replicas.isr.note_followed(FOLLOWER, 9)
    replicas.epochs[FOLLOWER] = 3
    assert not replicas.isr.fetched(FOLLOWER, 7, 10, 0, 10, 0)
    assert not replicas.isr.has_followed(FOLLOWER, 3, 5, 9)
    replicas.fetched(FOLLOWER, 10, 10, 0)
    assert replicas.isr.high_watermark(5, 10, 0) == 10


def test_a_process_that_begins_anew_is_not_about_to_join_because_of_the_one_before() -> None:
    """It has to fetch what it lost; until it has, nobody's acknowledgement waits for it."""
    replicas = Replicas((LEADER,))
    replicas.fetched(FOLLOWER, 10, 10, 0)
    assert replicas.isr.high_watermark(10, 12, 10) == 10, "it waits for who had all just now"
    replicas.epochs[FOLLOWER] = 1
    replicas.fetched(FOLLOWER, 3, 12, 20)
    assert replicas.isr.high_watermark(10, 12, 20) == 12
    replicas.fetched(FOLLOWER, 12, 12, 30)
    assert replicas.isr.high_watermark(12, 13, 30) == 12


def test_a_member_that_was_asked_for_counts_until_the_answer_is_known() -> None:
    """It may be one by now, and could lead without what was committed meanwhile."""
    replicas = Replicas((LEADER,))
    replicas.fetched(FOLLOWER, 10, 10, 0)
    wish = replicas.isr.growth(10)
    assert wish is not None
    replicas.isr.asked(wish)
    much_later_ms = 100 * LAG_MAX_MS
    assert replicas.isr.high_watermark(10, 12, much_later_ms) == 10
    replicas.isr.refused()
    assert replicas.isr.high_watermark(10, 12, much_later_ms) == 12


def test_who_is_not_alive_is_refused() -> None:
    replicas = Replicas((LEADER, FOLLOWER))
    replicas.fetched(FOLLOWER, 5, 10, 0)
    replicas.epochs[FOLLOWER] = None
    assert not replicas.isr.fetched(FOLLOWER, 0, 10, 0, 10, 0)
    assert replicas.isr.high_watermark(5, 10, 0) == 5


def test_who_has_left_by_itself_must_fetch_again_before_it_comes_back() -> None:
    """Its log dir has failed: what it had is not there any more."""
    replicas = Replicas((LEADER, FOLLOWER, OTHER))
    for node_id in (FOLLOWER, OTHER):
        replicas.fetched(node_id, 10, 10, 0)
    left = replace(replicas.isr.state, isr=(LEADER, OTHER), partition_epoch=6)
    replicas.isr.agreed(left, 100)
    assert replicas.isr.growth(10) is None
    assert replicas.isr.high_watermark(10, 12, 200) == 10  # as far as the other one has come
    replicas.fetched(OTHER, 12, 12, 200)
    assert replicas.isr.high_watermark(10, 12, 200) == 12
    assert replicas.isr.growth(12) is None
    replicas.fetched(FOLLOWER, 3, 12, 300)
    assert replicas.isr.growth(12) is None
    replicas.fetched(FOLLOWER, 12, 12, 400)
    wish = replicas.isr.growth(12)
    assert wish is not None
    assert [each for each, _ in wish.isr] == [LEADER, OTHER, FOLLOWER]


def test_who_is_left_out_as_the_leader_wished_is_known_as_before() -> None:
    replicas = Replicas((LEADER, FOLLOWER, OTHER))
    replicas.fetched(OTHER, 10, 10, 0)
    replicas.fetched(FOLLOWER, 9, 10, 0)
    wish = replicas.isr.shrinkage(10, 1100)
    assert wish is not None
    replicas.isr.asked(wish)
    shrunk = replace(replicas.isr.state, isr=(LEADER, OTHER), partition_epoch=6)
    replicas.isr.agreed(shrunk, 1200)
    assert replicas.isr.followers[FOLLOWER].log_end_offset == 9


def test_news_of_before_change_nothing() -> None:
    replicas = Replicas((LEADER, FOLLOWER))
    before = replace(replicas.isr.state, isr=(LEADER,), partition_epoch=4)
    replicas.isr.agreed(before, 0)
    assert replicas.isr.state.isr == (LEADER, FOLLOWER)


def test_what_is_known_already_is_no_answer() -> None:
    replicas = Replicas((LEADER,))
    replicas.fetched(FOLLOWER, 10, 10, 0)
    wish = replicas.isr.growth(10)
    assert wish is not None
    replicas.isr.asked(wish)
    replicas.isr.agreed(replicas.isr.state, 0)
    assert replicas.isr.high_watermark(10, 12, 100 * LAG_MAX_MS) == 10
    assert replicas.isr.growth(10) is None


def test_who_joins_has_all_that_was_there_when_this_leader_began() -> None:
    """The high watermark of a new leader may be one of some time ago."""
    replicas = Replicas((LEADER,), end_offset=10)
    replicas.fetched(FOLLOWER, 9, 10, 0)
    assert replicas.isr.growth(5) is None
    replicas.fetched(FOLLOWER, 10, 10, 0)
    assert replicas.isr.growth(5) is not None


def test_a_member_does_not_begin_anew() -> None:
    """An answer that tells it so is on its way; it was one before, and is one again by now."""
    replicas = Replicas((LEADER, FOLLOWER))
    for node_id in (FOLLOWER, OTHER):
        replicas.fetched(node_id, 10, 10, 0)
        replicas.isr.refetches(node_id)
    assert replicas.isr.followers[FOLLOWER].log_end_offset == 10
    assert replicas.isr.followers[OTHER].log_end_offset == -1


def test_who_is_gone_keeps_nothing_from_being_deleted() -> None:
    replicas = Replicas((LEADER, FOLLOWER))
    for node_id in (FOLLOWER, OTHER):
        replicas.fetched(node_id, 5, 10, 0)
    assert replicas.isr.low_watermark(3) == 0
    assert replicas.isr.has_follower_below(10)
    replicas.epochs = {FOLLOWER: None, OTHER: None}
    assert replicas.isr.low_watermark(3) == 3
    assert not replicas.isr.has_follower_below(10)


def test_who_has_gone_back_has_not_followed() -> None:
    replicas = Replicas((LEADER,))
    replicas.fetched(FOLLOWER, 8, 10, 0)
    replicas.isr.note_followed(FOLLOWER, 9)
    assert replicas.isr.has_followed(FOLLOWER, 0, 8, 9)
    assert not replicas.isr.has_followed(FOLLOWER, 0, 7, 9)
    assert not replicas.isr.has_followed(FOLLOWER, 1, 8, 9), "another process"
    assert not replicas.isr.has_followed(FOLLOWER, 0, 8, 10), "more is dropped by now"


def test_a_high_watermark_never_goes_back() -> None:
    """A member may have begun with less than was committed while others were members."""
    replicas = Replicas((LEADER, FOLLOWER))
    replicas.fetched(FOLLOWER, 8, 12, 0)
    assert replicas.isr.high_watermark(9, 12, 0) == 9
