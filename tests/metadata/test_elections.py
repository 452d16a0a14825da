"""Elections that somebody asks for."""

from __future__ import annotations

import pytest

from drumlin.metadata.elections import elected
from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.wire.errors import ErrorCode, KafkaError


def state(leader: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState(0, leader, 3, (1, 2, 3), isr)


def refusal(*what: object, **how: bool) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        elected(*what, **how)  # type: ignore[arg-type]
    return caught.value.code


def test_the_preferred_leader() -> None:
    assert elected(state(2, (2, 1)), {1, 2, 3}) == PartitionState(0, 1, 4, (1, 2, 3), (2, 1))
    assert refusal(state(1, (1, 2)), {1, 2}) is ErrorCode.election_not_needed
    # It is gone, and the controller has not looked yet.
    assert refusal(state(1, (1, 2)), {2}) is ErrorCode.preferred_leader_not_available
    assert refusal(state(2, (2, 1)), {2, 3}) is ErrorCode.preferred_leader_not_available
    assert refusal(state(2, (2, 3)), {1, 2, 3}) is ErrorCode.preferred_leader_not_available


def test_anybody() -> None:
    unled = state(NO_LEADER, (1,))
    assert elected(unled, {2, 3}, is_unclean=True) == PartitionState(0, 2, 4, (1, 2, 3), (2,))
    assert elected(unled, {1, 2}, is_unclean=True).leader == 1
    in_sync = elected(state(NO_LEADER, (2, 3)), {1, 3}, is_unclean=True)
    assert (in_sync.leader, in_sync.isr) == (3, (3,))
    assert refusal(unled, {4}, is_unclean=True) is ErrorCode.eligible_leaders_not_available
    assert refusal(state(2, (2,)), {1, 2}, is_unclean=True) is ErrorCode.election_not_needed
