"""Who leads a partition, and who is in sync: the rules, without ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.isr_wishes import check_wish, is_granted
from drumlin.metadata.leadership import (
    handed_over,
    in_next_epoch,
    is_unclean,
    never_led,
    preferred,
    settled,
    without_unclean,
)
from drumlin.metadata.store import IsrWish
from drumlin.wire.errors import ErrorCode, KafkaError

REPLICAS = (1, 2, 3)


def led(leader: int, isr: tuple[int, ...], epoch: int = 4) -> PartitionState:
    return PartitionState(0, leader, epoch, REPLICAS, isr, 9)


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    replicas = tuple(draw(st.permutations(REPLICAS)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    return PartitionState(0, leader, draw(st.integers(0, 9)), replicas, isr)


ALIVE = st.frozensets(st.sampled_from(REPLICAS))


@pytest.mark.parametrize(
    ("before", "alive", "after"),
    [
        (led(1, (1, 2, 3)), {1, 2, 3}, led(1, (1, 2, 3))),
        (led(1, (1, 2, 3)), {1, 3}, led(1, (1, 3))),
        (led(1, (3, 1, 2)), {2, 3}, led(2, (3, 2), 5)),
        (led(1, (1,)), {2, 3}, led(NO_LEADER, (1,), 5)),
        (led(1, (1, 2)), {3}, led(NO_LEADER, (1, 2), 5)),
        (led(NO_LEADER, (1, 2), 5), {2, 3}, led(2, (2,), 6)),
        (led(NO_LEADER, (1, 2), 5), {3}, led(NO_LEADER, (1, 2), 5)),
    ],
)
def test_the_controller_settles_a_partition(
    before: PartitionState, alive: set[int], after: PartitionState
) -> None:
    assert settled(before, alive) == after
    assert settled(after, alive) is after


def test_a_partition_that_was_never_led() -> None:
    new = never_led(0, REPLICAS)
    assert settled(new, {2, 3}) == replace(new, leader=2, leader_epoch=0, isr=(2, 3))
    assert settled(new, ()) is new
    assert in_next_epoch(new, NO_LEADER) is new


def test_an_unclean_leader_is_alone_in_sync() -> None:
    before = led(1, (1,))
    after = settled(before, {2, 3}, may_be_unclean=True)
    assert after == led(2, (2,), 5)
    assert is_unclean(before, after)
    assert not is_unclean(before, settled(before, {2, 3}))
    assert settled(led(1, (1, 3)), {2, 3}, may_be_unclean=True) == led(3, (3,), 5)


@given(states(), ALIVE, st.booleans())
def test_whoever_leads_is_alive_and_in_sync(
    state: PartitionState, alive: frozenset[int], may_be_unclean: bool
) -> None:
    after = settled(state, alive, may_be_unclean=may_be_unclean)
    assert settled(after, alive, may_be_unclean=may_be_unclean) is after
    assert (after.leader != state.leader) == (after.leader_epoch == state.leader_epoch + 1)
    assert after.isr
    if after.leader == NO_LEADER:
        assert after.isr == state.isr
        assert not alive & set(state.isr)
    else:
        assert after.leader in alive
        assert after.leader in after.isr
        assert set(after.isr) <= alive
        assert is_unclean(state, after) == (after.leader not in state.isr)
    if not may_be_unclean:
        assert set(after.isr) <= set(state.isr)


def test_after_an_unclean_stop() -> None:
    assert without_unclean(led(1, (1, 2, 3)), 1, {2, 3}) == led(2, (2, 3), 5)
    assert without_unclean(led(1, (1, 2, 3)), 1, {3}) == led(3, (2, 3), 5)
    assert without_unclean(led(1, (1, 2)), 1, {3}) == led(NO_LEADER, (2,), 5)
    assert without_unclean(led(2, (1, 2)), 1, {2}) == led(2, (2,))
    for state in (led(1, (1,)), led(2, (2, 3))):
        assert without_unclean(state, 1, {2, 3}) is state


def test_a_broker_that_stops() -> None:
    assert handed_over(led(1, (1, 3, 2)), 1, {1, 2, 3}) == led(2, (3, 2), 5)
    assert handed_over(led(2, (1, 2)), 1, {1, 2}) == led(2, (2,))
    for state in (led(1, (1,)), led(1, (1, 2)), led(2, (2, 3))):
        assert handed_over(state, 1, {1, 3}) is state


@given(states(), ALIVE, st.sampled_from(REPLICAS))
def test_whoever_leaves_leaves_somebody(
    state: PartitionState, alive: frozenset[int], node_id: int
) -> None:
    for after in (
        without_unclean(state, node_id, alive - {node_id}),
        handed_over(state, node_id, alive),
    ):
        assert after.isr
        if after is not state:
            assert node_id not in after.isr
            assert after.leader != node_id
            assert after.leader in (NO_LEADER, *after.isr)


def test_the_preferred_leader() -> None:
    assert preferred(led(2, (2, 1)), {1, 2}) == led(1, (2, 1), 5)
    for state, alive, code in (
        (led(1, (1, 2)), {1, 2}, ErrorCode.election_not_needed),
        (led(2, (1, 2)), {2}, ErrorCode.preferred_leader_not_available),
        (led(2, (2,)), {1, 2}, ErrorCode.preferred_leader_not_available),
    ):
        with pytest.raises(KafkaError) as caught:
            preferred(state, alive)
        assert caught.value.code is code


def test_a_new_epoch_is_the_leaders() -> None:
    assert in_next_epoch(led(1, (1, 2)), 1) == led(1, (1, 2), 5)
    state = led(2, (1, 2))
    assert in_next_epoch(state, 1) is state


# -- what a leader wishes for --------------------------------------------------------------------

STATE = led(1, (1, 2))
EPOCHS = {1: 10, 2: 20, 3: 30}


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (IsrWish(3, 9, ((1, 10),)), ErrorCode.fenced_leader_epoch),
        (IsrWish(5, 9, ((1, 10),)), ErrorCode.fenced_leader_epoch),
        (IsrWish(4, 8, ((1, 10),)), ErrorCode.invalid_update_version),
        (IsrWish(4, 10, ((1, 10),)), ErrorCode.invalid_update_version),
        (IsrWish(4, 9, ((2, 20),)), ErrorCode.invalid_request),
        (IsrWish(4, 9, ((1, 10), (2, 20), (2, 20))), ErrorCode.invalid_request),
        (IsrWish(4, 9, ()), ErrorCode.invalid_request),
        (IsrWish(4, 9, ((1, 10), (3, 29))), ErrorCode.ineligible_replica),
        (IsrWish(4, 9, ((1, 10), (3, -1))), ErrorCode.ineligible_replica),
        (IsrWish(4, 9, ((1, 10), (4, 40))), ErrorCode.ineligible_replica),
    ],
)
def test_wishes_that_are_refused(wish: IsrWish, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        check_wish(wish, STATE, 1, EPOCHS | {4: 40})
    assert caught.value.code is code


def test_wishes_that_are_granted() -> None:
    check_wish(IsrWish(4, 9, ((1, -1), (2, -1))), STATE, 1, {})
    wish = IsrWish(4, 9, ((1, -1), (2, 7), (3, 30)))  # who is in is not asked for its epoch
    check_wish(wish, STATE, 1, EPOCHS)
    assert not is_granted(wish, STATE, 1)
    made = replace(STATE, isr=(1, 2, 3), partition_epoch=10)
    assert is_granted(wish, made, 1)
    assert not is_granted(wish, made, 2)
    assert not is_granted(wish, replace(made, partition_epoch=11), 1)
    assert not is_granted(wish, replace(made, leader_epoch=5), 1)


def test_who_has_died_comes_in_with_no_epoch() -> None:
    """Neither -1, which stands for an epoch that is not known, nor any other."""
    for epoch in (-1, 30):
        with pytest.raises(KafkaError):
            check_wish(IsrWish(4, 9, ((1, 10), (3, epoch))), STATE, 1, {1: 10, 2: 20})
