"""The table of states: every pair is tried, and only what the table allows happens."""

from __future__ import annotations

import itertools

import pytest

from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic.generation import Generation
from drumlin.coordination.groups.classic.membership import Membership
from drumlin.coordination.groups.every_kind.states import (
    LEGAL_TRANSITIONS,
    GroupState,
    IllegalTransition,
)

#: As in Apache Kafka: for each state, those from which it can be reached.
REACHED_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.EMPTY,
    },
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState) - {GroupState.DEAD},
}


def test_the_table_is_kafkas() -> None:
    for state, target in itertools.product(GroupState, GroupState):
        assert (target in LEGAL_TRANSITIONS[state]) == (state in REACHED_FROM[target])


@pytest.mark.parametrize(("state", "target"), list(itertools.product(GroupState, GroupState)))
def test_an_illegal_transition_changes_nothing(state: GroupState, target: GroupState) -> None:
    clock = ManualClock()
    generation = Generation("g", Membership(), clock)
    generation.state = state
    before = generation.state_timestamp_ms
    clock.advance_ms(1)
    if target in LEGAL_TRANSITIONS[state]:
        generation.transition_to(target)
        assert generation.state is target
        assert generation.state_timestamp_ms == clock.wall_ms()
    else:
        with pytest.raises(IllegalTransition):
            generation.transition_to(target)
        assert (generation.state, generation.state_timestamp_ms) == (state, before)
