"""Elections that somebody asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumlin.metadata.image import NO_LEADER, NO_LOG, LastKnown, LogEnd, PartitionState
from drumlin.metadata.rules.elections import elected
from drumlin.wire.error_codes import ErrorCode, KafkaError


def state(leader: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState(0, leader, 3, (1, 2, 3), isr)


def refusal(*what: object, **how: bool) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        elected(*what, 1, **how)  # type: ignore[arg-type]
    return caught.value.code


def test_the_preferred_leader() -> None:
    assert elected(state(2, (2, 1)), {1, 2, 3}, 2) == PartitionState(0, 1, 4, (1, 2, 3), (2, 1))
    assert refusal(state(1, (1, 2)), {1, 2}) is ErrorCode.election_not_needed
    # It is gone, and the controller has not looked yet.
    assert refusal(state(1, (1, 2)), {2}) is ErrorCode.preferred_leader_not_available
    assert refusal(state(2, (2, 1)), {2, 3}) is ErrorCode.preferred_leader_not_available
    assert refusal(state(2, (2, 3)), {1, 2, 3}) is ErrorCode.preferred_leader_not_available


def test_anybody() -> None:
    unled = state(NO_LEADER, (1,))
    assert elected(unled, {2, 3}, 2, is_unclean=True) == PartitionState(0, 2, 4, (1, 2, 3), (2,))
    assert elected(unled, {1, 2}, 2, is_unclean=True).leader == 1
    in_sync = elected(state(NO_LEADER, (2, 3)), {1, 3}, 1, is_unclean=True)
    assert (in_sync.leader, in_sync.isr) == (3, (3,))
    assert refusal(unled, {4}, is_unclean=True) is ErrorCode.eligible_leaders_not_available
    assert refusal(state(2, (2,)), {1, 2}, is_unclean=True) is ErrorCode.election_not_needed


def test_whoever_lacks_least_is_taken_first() -> None:
    """In sync, eligible, complete before an unclean stop, the longest log, then by their order."""
    known = (
        LastKnown(1, NO_LOG, was_complete=False),
        LastKnown(3, LogEnd(2, 900), was_complete=True),
        LastKnown(4, LogEnd(3, 100), was_complete=True),
        LastKnown(6, LogEnd(1, 500), was_complete=False),
    )
    replicas = (1, 2, 3, 4, 5, 6, 7)
    before = PartitionState(0, NO_LEADER, 3, replicas, (5,), elr=(2,), last_known=known)
    alive = set(replicas)
    for wanted in (5, 2, 4, 3, 6, 7, 1):
        after = elected(before, alive, 2, is_unclean=True)
        assert after.leader == wanted
        assert after.isr == (wanted,)
        alive.discard(wanted)
    last = replace(before, last_known=(), last_leader=7)
    assert elected(last, {1, 6, 7}, 2, is_unclean=True).leader == 7


def test_an_unclean_leader_leaves_nobody_eligible() -> None:
    before = replace(state(NO_LEADER, (1,)), elr=(2,))
    after = elected(before, {3}, 2, is_unclean=True)
    assert (after.leader, after.isr, after.elr, after.last_known) == (3, (3,), (), ())
    assert elected(before, {2, 3}, 2, is_unclean=True).elr == (1,)
