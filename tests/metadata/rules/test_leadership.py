"""Who leads a partition, and who is in sync: the rules, without ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest, check_request, is_granted
from drumlin.metadata.rules.leadership import (
    handed_over,
    in_next_epoch,
    never_led,
    preferred,
    settled,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

REPLICAS = (1, 2, 3)


def led(leader: int, isr: tuple[int, ...], epoch: int = 4) -> PartitionState:
    return PartitionState(0, leader, epoch, REPLICAS, isr, 9)


def unled(isr: tuple[int, ...], last_leader: int = NO_LEADER, epoch: int = 5) -> PartitionState:
    return replace(led(NO_LEADER, isr, epoch), last_leader=last_leader)


@pytest.mark.parametrize(
    ("before", "alive", "after"),
    [
        (led(1, (1, 2, 3)), {1, 2, 3}, led(1, (1, 2, 3))),
        (led(1, (1, 2, 3)), {1, 3}, led(1, (1, 3))),
        (led(1, (3, 1, 2)), {2, 3}, led(2, (3, 2), 5)),
        (led(1, (1,)), {2, 3}, unled((1,), 1)),
        (led(1, (1, 2)), {3}, unled((1, 2), 1)),
        (unled((1, 2), 1), {2, 3}, led(2, (2,), 6)),
        (unled((1, 2)), {3}, unled((1, 2))),
    ],
)
def test_the_controller_settles_a_partition(
    before: PartitionState, alive: set[int], after: PartitionState
) -> None:
    assert settled(before, alive, 1) == after
    assert settled(after, alive, 1) is after


def test_a_partition_that_was_never_led() -> None:
    new = never_led(0, REPLICAS)
    assert settled(new, {2, 3}, 2) == replace(new, leader=2, leader_epoch=0, isr=(2, 3))
    assert settled(new, (), 2) is new
    assert in_next_epoch(new, NO_LEADER) is new


def test_a_broker_that_stops() -> None:
    assert handed_over(led(1, (1, 3, 2)), 1, {1, 2, 3}, 2) == led(2, (3, 2), 5)
    assert handed_over(led(2, (1, 2)), 1, {1, 2}, 1) == led(2, (2,))
    assert handed_over(led(2, (1, 2)), 1, {1, 2}, 2) == replace(led(2, (2,)), elr=(1,))
    for state in (led(1, (1,)), led(1, (1, 2)), led(2, (2, 3))):
        assert handed_over(state, 1, {1, 3}, 2) is state


def test_the_preferred_leader() -> None:
    assert preferred(led(2, (2, 1)), {1, 2}, 2) == led(1, (2, 1), 5)
    for state, alive, code in (
        (led(1, (1, 2)), {1, 2}, ErrorCode.election_not_needed),
        (led(2, (1, 2)), {2}, ErrorCode.preferred_leader_not_available),
        (led(2, (2,)), {1, 2}, ErrorCode.preferred_leader_not_available),
    ):
        with pytest.raises(KafkaError) as caught:
            preferred(state, alive, 2)
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
        (IsrRequest(3, 9, ((1, 10),)), ErrorCode.fenced_leader_epoch),
        (IsrRequest(5, 9, ((1, 10),)), ErrorCode.fenced_leader_epoch),
        (IsrRequest(4, 8, ((1, 10),)), ErrorCode.invalid_update_version),
        (IsrRequest(4, 10, ((1, 10),)), ErrorCode.invalid_update_version),
        (IsrRequest(4, 9, ((2, 20),)), ErrorCode.invalid_request),
        (IsrRequest(4, 9, ((1, 10), (2, 20), (2, 20))), ErrorCode.invalid_request),
        (IsrRequest(4, 9, ()), ErrorCode.invalid_request),
        (IsrRequest(4, 9, ((1, 10), (3, 29))), ErrorCode.ineligible_replica),
        (IsrRequest(4, 9, ((1, 10), (3, -1))), ErrorCode.ineligible_replica),
        (IsrRequest(4, 9, ((1, 10), (4, 40))), ErrorCode.ineligible_replica),
    ],
)
def test_wishes_that_are_refused(wish: IsrRequest, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        check_request(wish, STATE, 1, EPOCHS | {4: 40})
    assert caught.value.code is code


def test_wishes_that_are_granted() -> None:
    check_request(IsrRequest(4, 9, ((1, -1), (2, -1))), STATE, 1, {})
    wish = IsrRequest(4, 9, ((1, -1), (2, 7), (3, 30)))  # who is in is not asked for its epoch
    check_request(wish, STATE, 1, EPOCHS)
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
            check_request(IsrRequest(4, 9, ((1, 10), (3, epoch))), STATE, 1, {1: 10, 2: 20})
