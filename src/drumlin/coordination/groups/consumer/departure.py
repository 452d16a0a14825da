"""Decisions about members that leave or are fenced."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from drumlin.coordination.groups.consumer.conversion import (
    MEMBERS_AT_ONCE,
    as_classic,
    may_become_classic,
    stays_consumer,
    to_classic,
)
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import (
    LEAVING_FOR_A_WHILE,
    Member,
    MemberState,
    Progress,
)
from drumlin.coordination.groups.consumer.member_change import MemberChange, check_static
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.consumer.records import ProgressKey, RegexKey
from drumlin.coordination.groups.every_kind.any_group import Convert, Decision, Effect
from drumlin.coordination.groups.every_kind.states import Deadline, DeadlineKind

_log = logging.getLogger(__name__)


_RETRY_MS: Final = 1_000
_NO_CONSUMER_MEMBER: Final = "the last member of the consumer protocol left"


def leave(group: ConsumerGroup, request: HeartbeatRequest) -> Decision:
    """Let a member leave; a static member may leave temporarily.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if request.group_instance_id is None:
        member = group.member(request.member_id)
    else:
        member = check_static(group, request.group_instance_id, request.member_id)
    answer = HeartbeatAnswer(member.member_id, request.epoch)
    if request.group_instance_id is not None and request.epoch == LEAVING_FOR_A_WHILE:
        return Decision([(ProgressKey(group.group_id, member.member_id), _away(member))], answer)
    return fence(group, [member], answer)


def _away(member: Member) -> Progress:
    """The progress of a static member that leaves temporarily. The member keeps its assignment, and
    may commit offsets for the assigned partitions after it has returned.
    """
    assigned = {
        topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.progress.assigned.items()
    }
    return replace(member.progress, epoch=LEAVING_FOR_A_WHILE, assigned=assigned, revoking={})


def fence(
    group: ConsumerGroup, members: Sequence[Member], answer: Any = None, *, in_turns: bool = True
) -> Decision:
    """Remove members. If only classic members are left, the group becomes a classic one; with
    `in_turns`, a large group does so over several turns.
    """
    if not members:
        return Decision([], answer)
    if not may_become_classic(group, members):
        return _remove(group, members, answer)
    gone = {member.member_id for member in members}
    staying = [each for each in group.members.values() if each.member_id not in gone]

    def otherwise() -> Decision:
        stays_consumer(group, len(staying))
        return _remove(group, members, answer)

    def decide(*, in_turns: bool) -> Decision:
        left = [each for each in group.members.values() if each.member_id in gone]
        return fence(group, left, answer, in_turns=in_turns)

    if in_turns and len(staying) > MEMBERS_AT_ONCE:
        make = partial(as_classic, group, staying, group.targets)
        convert = Convert(make, decide, _NO_CONSUMER_MEMBER)
        return Decision((), answer, otherwise=otherwise, convert=convert)
    converted = to_classic(group, staying, _NO_CONSUMER_MEMBER)
    if converted is None:
        return _remove(group, members, answer)
    return converted._replace(answer=answer, otherwise=otherwise)


def _remove(group: ConsumerGroup, members: Sequence[Member], answer: Any) -> Decision:
    change = MemberChange(group)
    for member in members:
        change.remove(member.member_id)
    regexes = Counter(member.subscription.regex for member in members if member.subscription.regex)
    subscribed = group.regex_subscribers
    dropped = {regex for regex, count in regexes.items() if subscribed.get(regex) == count}
    for regex in dropped:
        change.write(RegexKey(group.group_id, regex), None)
    subscribers = Counter(group.subscribers)
    for member in members:
        subscribers.subtract(member.subscription.topics)
    names = {name for name, count in subscribers.items() if count > 0}
    kept = (each.topics for regex, each in group.regexes.items() if regex not in dropped)
    change.bump(names.union(*kept), has_changed=True)
    return Decision(change.records, answer)


def expire(group: ConsumerGroup, deadline: Deadline) -> Sequence[Effect]:
    """Fence a member whose deadline has passed."""
    member = group.members.get(deadline.member_id)
    if member is None:
        return ()
    if deadline.kind is DeadlineKind.REVOCATION and (
        member.progress.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        return ()
    _log.info(
        "group %r: member %r is removed: %s",
        group.group_id,
        member.member_id,
        _REASONS[deadline.kind],
    )
    # The member stays until the records are written; after a failed write, this runs again.
    group.schedule(deadline.kind, member.member_id, _RETRY_MS)
    return [fence(group, [member])]


_REASONS: Final = {
    DeadlineKind.SESSION: "it sent no heartbeat",
    DeadlineKind.JOIN: "it did not join again",
    DeadlineKind.SYNC: "it did not ask for its assignment",
    DeadlineKind.REVOCATION: "it did not give up partitions",
}
