"""Reassigning one partition: what is decided, and what must hold whatever happens meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.rules.leadership import settled
from drumlin.metadata.rules.reassignment import (
    cancelled,
    completed,
    moved,
    origin_of,
    reassigned,
    target_of,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

ALIVE = range(1, 7)


def led(*replicas: int, isr: tuple[int, ...] | None = None, leader: int = 1) -> PartitionState:
    return PartitionState(0, leader, 5, replicas, replicas if isr is None else isr, 9)


def caught_up(state: PartitionState) -> PartitionState:
    return replace(state, isr=state.replicas)


def test_it_grows_waits_and_shrinks() -> None:
    begun = reassigned(led(1, 2, 3), (4, 5, 1), ALIVE, 1)
    assert begun.replicas == (4, 5, 1, 2, 3)
    assert (begun.adding, begun.removing) == ((4, 5), (2, 3))
    assert (begun.leader, begun.leader_epoch, begun.isr) == (1, 5, (1, 2, 3))
    assert target_of(begun) == (4, 5, 1)
    assert origin_of(begun) == (1, 2, 3)
    assert completed(replace(begun, isr=(1, 2, 3, 5)), ALIVE, 1).is_reassigned
    done = completed(caught_up(begun), ALIVE, 1)
    assert done == replace(led(4, 5, 1), leader_epoch=6)


def test_the_leader_moves_last_to_the_first_of_the_target_that_is_alive() -> None:
    begun = caught_up(reassigned(led(1, 2), (3, 4), ALIVE, 1))
    assert completed(begun, {1, 2, 4}, 1).leader == 4
    assert completed(begun, {1, 2}, 1) == begun
    done = completed(begun, ALIVE, 1)
    assert (done.leader, done.isr, done.leader_epoch) == (3, (3, 4), 6)


@pytest.mark.parametrize(
    ("target", "leader", "leader_epoch"),
    [((3, 2, 1), 1, 5), ((1, 3), 1, 6), ((2,), 2, 6), ((1, 2, 3), 1, 5)],
)
def test_what_needs_no_new_replica_is_done_at_once(
    target: tuple[int, ...], leader: int, leader_epoch: int
) -> None:
    done = reassigned(led(1, 2, 3), target, ALIVE, 1)
    assert not done.is_reassigned
    assert (done.replicas, done.leader, done.leader_epoch) == (target, leader, leader_epoch)
    assert set(done.isr) == set(target)


def test_a_target_out_of_sync_is_waited_for_though_it_is_no_new_one() -> None:
    begun = reassigned(led(1, 2, isr=(1,)), (2,), ALIVE, 1)
    assert (begun.replicas, begun.removing, begun.leader) == ((2, 1), (1,), 1)


def test_another_target_takes_the_place_of_the_first() -> None:
    first = reassigned(led(1, 2), (3, 4), ALIVE, 1)
    first = replace(first, isr=(1, 2, 3))
    second = reassigned(first, (4, 5), ALIVE, 1)
    assert second.replicas == (4, 5, 1, 2)
    assert (second.adding, second.removing) == ((4, 5), (1, 2))
    assert (second.isr, second.leader_epoch) == ((1, 2), 6)
    assert origin_of(second) == (1, 2)


def test_taking_it_back() -> None:
    begun = replace(reassigned(led(1, 2), (3, 2), ALIVE, 1), isr=(1, 2, 3))
    assert begun.replicas == (3, 2, 1)
    back = cancelled(begun, ALIVE, 1)
    assert (set(back.replicas), back.is_reassigned) == ({1, 2}, False)
    assert (back.leader, back.isr, back.leader_epoch) == (1, (1, 2), 6)
    with pytest.raises(KafkaError) as caught:
        cancelled(back, ALIVE, 1)
    assert caught.value.code is ErrorCode.no_reassignment_in_progress


def test_what_would_lose_records_is_refused_unless_that_is_allowed() -> None:
    begun = reassigned(led(1, 2), (3,), ALIVE, 1)
    only_new = replace(begun, isr=(3,), leader=3)
    for change in (
        lambda **how: cancelled(only_new, ALIVE, 1, **how),
        lambda **how: reassigned(only_new, (4,), ALIVE, 1, **how),
    ):
        with pytest.raises(KafkaError) as caught:
            change()
        assert caught.value.code is ErrorCode.invalid_replica_assignment
        assert change(may_be_unclean=True).leader in (1, 4)


@pytest.mark.parametrize("target", [(), (1, 1), (1, 9), (-1,)])
def test_what_is_no_target(target: tuple[int, ...]) -> None:
    with pytest.raises(KafkaError) as caught:
        reassigned(led(1, 2), target, ALIVE, 1)
    assert caught.value.code is ErrorCode.invalid_replica_assignment


def test_a_dead_replica_may_stay() -> None:
    assert reassigned(led(1, 2, isr=(1,)), (2, 3), {1, 3}, 1).adding == (3,)


def test_the_number_of_replicas() -> None:
    begun = reassigned(led(1, 2), (3, 4), ALIVE, 1)
    assert moved(begun, ALIVE, 1, target=(5, 6), may_change_factor=False).is_reassigned
    with pytest.raises(KafkaError) as caught:
        moved(begun, ALIVE, 1, target=(5, 6, 1), may_change_factor=False)
    assert caught.value.code is ErrorCode.invalid_replication_factor


BROKERS = st.integers(1, 5)
TARGETS = st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple)


class _Whatever(RuleBasedStateMachine):
    """Brokers come and go, catch up and fall behind, while targets are given and taken back."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = {1, 2, 3, 4, 5}
        self.state = PartitionState(0, 1, 0, (1, 2), (1, 2))
        #: Who has had every record that was acknowledged since it became a replica.
        self.has_all = {1, 2}

    def _becomes(self, state: PartitionState) -> None:
        before = self.state
        if not set(before.replicas) <= set(state.replicas) or state.leader != before.leader:
            assert state.leader_epoch > before.leader_epoch
        self.has_all &= set(state.replicas)
        self.has_all &= set(state.isr) | (self.has_all if state.leader == NO_LEADER else set())
        self.state = state

    @rule(wanted=TARGETS)
    def reassign(self, wanted: tuple[int, ...]) -> None:
        try:
            state = reassigned(self.state, wanted, self.alive, 1)
        except KafkaError:
            return
        assert target_of(state) == wanted
        assert set(origin_of(self.state)) <= set(state.replicas) or not state.is_reassigned
        self._becomes(state)

    @rule()
    def cancel(self) -> None:
        try:
            state = cancelled(self.state, self.alive, 1)
        except KafkaError:
            return
        assert set(state.replicas) == set(origin_of(self.state))
        self._becomes(state)

    @rule()
    def control(self) -> None:
        """What the controller does whenever it hears of something."""
        self._becomes(settled(self.state, self.alive, 1))
        self._becomes(completed(self.state, self.alive, 1))

    @rule(broker=BROKERS)
    def catch_up(self, broker: int) -> None:
        state = self.state
        can = broker in state.replicas and {broker, state.leader} <= self.alive
        if can and broker not in state.isr:
            self.has_all.add(broker)
            self.state = replace(state, isr=(*state.isr, broker))

    @rule(broker=BROKERS)
    def fall_behind(self, broker: int) -> None:
        state = self.state
        if state.leader in self.alive and broker in state.isr and broker != state.leader:
            isr = tuple(each for each in state.isr if each != broker)
            self._becomes(replace(state, isr=isr))

    @rule(broker=BROKERS)
    def die_or_come_back(self, broker: int) -> None:
        self.alive ^= {broker}

    @invariant()
    def records_are_not_lost(self) -> None:
        state = self.state
        assert state.isr
        assert set(state.isr) <= self.has_all & set(state.replicas)
        assert state.leader == NO_LEADER or state.leader in state.isr

    @invariant()
    def replicas_are_told_right(self) -> None:
        state = self.state
        assert len(set(state.replicas)) == len(state.replicas)
        assert set(state.adding) <= set(state.replicas) > set(state.removing)
        assert not set(state.adding) & set(state.removing)


TestWhatever = _Whatever.TestCase


@given(TARGETS, TARGETS)
def test_once_all_have_it_all_the_target_is_reached(
    replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    begun = reassigned(led(*replicas, leader=replicas[0]), target, ALIVE, 1)
    done = completed(caught_up(begun), ALIVE, 1)
    assert (done.replicas, done.is_reassigned) == (target, False)
    assert done.leader in target
