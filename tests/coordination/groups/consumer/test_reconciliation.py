"""Every step that a member can take towards a target, tried for all small cases.

The table of states: which may follow which is checked for every combination of what a member
has, must give up, says that it has, is to get, and what others own.
"""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest

from drumlin.coordination.groups.consumer.member import Member, MemberState, Progress
from drumlin.coordination.groups.consumer.reconciliation import Goal, next_progress
from drumlin.wire.error_codes import ErrorCode, KafkaError

TOPIC, OTHER = UUID(int=1), UUID(int=2)
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS

#: Without another target a member only waits, or continues.
LEGAL_IN_THE_SAME_EPOCH = {
    STABLE: {STABLE},
    UNREVOKED: {UNREVOKED, UNRELEASED, STABLE},
    UNRELEASED: {UNRELEASED, STABLE, UNREVOKED},
}
LEGAL_WITH_ANOTHER_TARGET = {
    STABLE: {STABLE, UNREVOKED, UNRELEASED},
    UNREVOKED: {UNREVOKED, UNRELEASED, STABLE},
    UNRELEASED: {UNRELEASED, STABLE, UNREVOKED},
}

SETS = [frozenset(some) for size in range(4) for some in itertools.combinations(range(3), size)]


def goal(
    epoch: int,
    target: frozenset[int],
    others: frozenset[int],
    owned: frozenset[int] | None,
    has: frozenset[int],
) -> Goal:
    return Goal(
        epoch,
        {TOPIC: target} if target else {},
        frozenset({TOPIC}),
        {TOPIC: dict.fromkeys(others | has, 1)},
        None if owned is None else {TOPIC: owned},
    )


def progress(
    state: MemberState, assigned: frozenset[int], revoking: frozenset[int], epoch: int = 5
) -> Progress:
    return Progress(
        epoch,
        4,
        state,
        {TOPIC: dict.fromkeys(sorted(assigned), 3)} if assigned else {},
        {TOPIC: dict.fromkeys(sorted(revoking), 3)} if revoking else {},
    )


def partitions(value: object) -> frozenset[int]:
    assert isinstance(value, dict)
    return frozenset(value.get(TOPIC, {}))


@pytest.mark.parametrize("state", [STABLE, UNREVOKED, UNRELEASED])
@pytest.mark.parametrize("epoch", [5, 6])
def test_every_small_case(state: MemberState, epoch: int) -> None:
    legal = LEGAL_IN_THE_SAME_EPOCH if epoch == 5 else LEGAL_WITH_ANOTHER_TARGET
    seen = set()
    for assigned, revoking, target, others in itertools.product(SETS, repeat=4):
        if assigned & revoking or others & (assigned | revoking):
            continue
        if (state is UNREVOKED) != bool(revoking):
            continue
        if state is STABLE and epoch == 5 and assigned != target:
            continue  # stable means: it has what it is to have
        before = progress(state, assigned, revoking)
        for owned in (None, assigned, assigned | revoking):
            has = assigned | revoking
            aim = goal(epoch, target, others, owned, has)
            after = next_progress(Member("m", progress=before), aim, has_new_subscription=False)
            seen.add(after.state)
            assert after.state in legal[state]
            _check_step(before, after, aim, others)
    assert seen == legal[state]


def _check_step(before: Progress, after: Progress, aim: Goal, others: frozenset[int]) -> None:
    had = partitions(before.assigned) | partitions(before.revoking)
    has, gives = partitions(after.assigned), partitions(after.revoking)
    target = aim.target.get(TOPIC, frozenset())
    assert not has & gives
    assert not (has - had) & others  # what others own stays with them
    if after.state is UNREVOKED:
        assert gives
        assert after.epoch == before.epoch  # it keeps its epoch until it has given up
        assert not has - partitions(before.assigned)  # and gets nothing before
    else:
        assert not gives
        assert after.epoch == aim.epoch
        assert has <= target
        assert (after.state is STABLE) == (has == target)
    if before.state is UNREVOKED and aim.owned is None:
        assert after == before  # it did not say that it has given up
    for partition in has & partitions(before.assigned):
        assert after.assigned[TOPIC][partition] == before.assigned[TOPIC][partition]
    for partition in has - partitions(before.assigned):
        assert after.assigned[TOPIC][partition] == aim.epoch


@pytest.mark.parametrize("state", [STABLE, UNREVOKED])
def test_other_topics_are_given_up_at_once(state: MemberState) -> None:
    before = Progress(5, 4, state, {TOPIC: {0: 3}, OTHER: {1: 3}}, {})
    if state is UNREVOKED:
        before = Progress(5, 4, state, before.assigned, {OTHER: {2: 3}})
    member = Member("m", progress=before)
    aim = Goal(5, {TOPIC: frozenset({0})}, frozenset({TOPIC}), {}, None)
    after = next_progress(member, aim, has_new_subscription=True)
    assert (after.state, after.epoch) == (UNREVOKED, 5)
    assert after.assigned == {TOPIC: {0: 3}}
    assert after.revoking.keys() == {OTHER}
    assert next_progress(member, aim, has_new_subscription=False) == before


def test_a_state_that_is_not_known() -> None:
    """As a newer broker may leave it: the member has to start again."""
    member = Member("m", progress=Progress(5, 4, MemberState.UNKNOWN, {TOPIC: {0: 3}}))
    for owned in (None, {TOPIC: frozenset({0})}):
        aim = Goal(7, {}, frozenset({TOPIC}), {}, owned)
        with pytest.raises(KafkaError) as refusal:
            next_progress(member, aim, has_new_subscription=False)
        assert refusal.value.code is ErrorCode.fenced_member_epoch
    aim = Goal(7, {}, frozenset({TOPIC}), {}, {})
    assert next_progress(member, aim, has_new_subscription=False).epoch == 7
