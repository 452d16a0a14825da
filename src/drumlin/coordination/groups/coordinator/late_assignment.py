"""The target assignment of a large share group that changes all the time.

Usually a heartbeat computes an assignment for the group as it is then, and starts again if the
group changes meanwhile. A group that changes all the time would never have one. So in the end it
is assigned as it was at some time, whatever has changed since: that is left to the next
assignment. No member waits for it, and former members get nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.groups.share.messages import NextTarget
from drumlin.coordination.groups.share.records import (
    ShareTargetKey,
    ShareTargetMemberKey,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)


def assign_late(
    groups: GroupCoordinator, shard: GroupShard, group: ShareGroup
) -> Coroutine[Any, Any, None]:
    """Assign a group as it is when the work begins, unless such work is under way already."""
    group.is_assigning = True  # from now on, not from the first turn of the work
    return _assign_or_log(groups, shard, group)


async def _assign_or_log(groups: GroupCoordinator, shard: GroupShard, group: ShareGroup) -> None:
    try:
        await _assign(groups, shard, group)
    except KafkaError as refusal:  # a later heartbeat tries again
        _log.warning("group %r keeps its target assignment: %s", group.group_id, refusal)
    finally:
        group.is_assigning = False


async def _assign(groups: GroupCoordinator, shard: GroupShard, group: ShareGroup) -> None:
    """
    Raises:
        KafkaError: it was not written.
    """
    group_id, epoch = group.group_id, group.epoch
    clock = groups.context.clock
    subscriptions = {each.member_id: each.topics for each in group.describe()}
    targets = await group.assign(subscriptions)
    new = await group.next_target(targets)

    def last() -> tuple[Sequence[GroupRecord], Sequence[GroupRecord]]:
        if shard.groups.get(group_id) is not group or group.target.epoch >= epoch:
            raise KafkaError(ErrorCode.group_id_not_found, "it is another group by now")
        ends: list[GroupRecord] = [
            (ShareTargetMemberKey(group_id, each), None)
            for each in targets
            if group.member_epoch(each) is None
        ]
        ends.append((ShareTargetKey(group_id), TargetEpoch(epoch, clock.wall_ms())))
        return ends, ends

    def take_over(ends: Sequence[GroupRecord]) -> None:
        group.follow(NextTarget(targets, []))
        shard.apply(ends)

    await groups.write_in_turns(shard, new.records, last, take_over)
