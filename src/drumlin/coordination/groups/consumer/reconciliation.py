"""The next step of one member on its way to the target assignment. Pure.

                 all revoked, or nothing to revoke
    UNREVOKED ------------------------------------> STABLE, in the target's epoch
        |   ^                                         ^  |
        |   '---- the target has changed, and the -----' |
        |         member must revoke some partitions     |
        '----> UNRELEASED <------------------------------'
               until others have revoked its new partitions

A member stays in its epoch until it has revoked the partitions that it loses in the next epoch. So
the member commits the offsets of a partition in an epoch in which it owned the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.consumer.member import (
    Member,
    MemberState,
    PartitionEpochs,
    Partitions,
    Progress,
    intersect,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

_NOBODY: Final[Mapping[int, int]] = {}
_NOTHING: Final[frozenset[int]] = frozenset()


class Goal(NamedTuple):
    """The state that a member must reach.

    topics: the subscribed topics; the member must not keep partitions of other topics.
    owners: topic id -> the partitions that some member has now.
    owned: the partitions that the member reports; None if the request does not report any.
    """

    epoch: int
    target: Partitions
    topics: frozenset[UUID]
    owners: Mapping[UUID, Mapping[int, int]]
    owned: Partitions | None


def next_progress(member: Member, goal: Goal, *, has_new_subscription: bool) -> Progress:
    """The member's next progress, or its current one if it cannot advance.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH, the member's state is unknown.
    """
    progress = member.progress
    if progress.state is MemberState.STABLE and progress.epoch == goal.epoch:
        return _without_unsubscribed(progress, goal) if has_new_subscription else progress
    if progress.state is MemberState.UNREVOKED_PARTITIONS and _still_has(goal, progress.revoking):
        return _without_unsubscribed(progress, goal) if has_new_subscription else progress
    if progress.state is MemberState.UNKNOWN:
        if goal.owned is None or goal.owned:
            raise KafkaError(
                ErrorCode.fenced_member_epoch,
                f"the state of member {member.member_id} is not known; it must join again",
            )
        progress = replace(progress, epoch=goal.epoch)
    return _towards(progress, goal)


def _still_has(goal: Goal, revoking: PartitionEpochs) -> bool:
    return goal.owned is None or intersect(revoking, goal.owned)


def _without_unsubscribed(progress: Progress, goal: Goal) -> Progress:
    """Progress in the same epoch, without topics that the member no longer subscribes to."""
    dropped = {
        topic_id: epochs
        for topic_id, epochs in progress.assigned.items()
        if topic_id not in goal.topics
    }
    if not dropped:
        return progress
    kept = {
        topic_id: epochs
        for topic_id, epochs in progress.assigned.items()
        if topic_id not in dropped
    }
    revoking = dict(progress.revoking)
    for topic_id, epochs in dropped.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    previous_epoch = progress.epoch
    if _still_has(goal, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return Progress(progress.epoch, previous_epoch, state, kept, revoking)
    return replace(progress, previous_epoch=previous_epoch, assigned=kept)


def _towards(progress: Progress, goal: Goal) -> Progress:
    kept: dict[UUID, Mapping[int, int]] = {}
    revoking: dict[UUID, Mapping[int, int]] = {}
    coming: dict[UUID, Mapping[int, int]] = {}  # including partitions that the member keeps
    must_wait = False
    # Merging dicts avoids looking up thousands of ids, which is slow.
    for topic_id, target in {**dict.fromkeys(progress.assigned, _NOTHING), **goal.target}.items():
        had = progress.assigned.get(topic_id, _NOBODY) if progress.assigned else _NOBODY
        wanted = target if topic_id in goal.topics else _NOTHING
        stays, goes = _split(had, wanted)
        if stays:
            kept[topic_id] = stays
        if goes:
            revoking[topic_id] = goes
        missing = wanted - had.keys() if had else wanted
        if not missing:
            continue
        if owned := missing & goal.owners.get(topic_id, _NOBODY).keys():
            owned -= progress.revoking.get(topic_id, _NOBODY).keys()
        if owned:
            must_wait = True
            missing -= owned
        if missing:
            new = dict.fromkeys(sorted(missing), goal.epoch)
            coming[topic_id] = dict(sorted({**stays, **new}.items())) if stays else new
    if revoking and _still_has(goal, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return Progress(progress.epoch, progress.epoch, state, kept, revoking)
    kept |= coming
    state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
    return Progress(goal.epoch, progress.epoch, state, kept, {})


def _split(
    had: Mapping[int, int], wanted: frozenset[int]
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """The partitions of a topic that a member keeps, and those that it must revoke."""
    if had.keys() == wanted:
        return had, _NOBODY
    if not (had and wanted):
        return _NOBODY, had
    stays = {each: epoch for each, epoch in had.items() if each in wanted}
    return stays, {each: epoch for each, epoch in had.items() if each not in wanted}
