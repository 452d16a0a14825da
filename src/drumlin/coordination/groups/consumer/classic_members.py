"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A classic member is reconciled like any other member, but by requests of the classic protocol. Its
generation is the member's epoch. The member gets the epoch from JoinGroup, and the assignment from
SyncGroup. The answer REBALANCE_IN_PROGRESS to a heartbeat makes the member revoke partitions and
join again. There is no leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from drumlin.coordination.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from drumlin.coordination.groups.consumer.conversion import (
    MEMBERS_AT_ONCE,
    as_classic,
    by_id,
    by_name,
    may_become_classic,
    stays_consumer,
    to_classic,
)
from drumlin.coordination.groups.consumer.departure import fence
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import (
    ClassicProtocols,
    Member,
    MemberState,
    Partitions,
    Subscription,
)
from drumlin.coordination.groups.consumer.member_change import (
    MemberChange,
    RegexChange,
    check_room,
    check_static,
)
from drumlin.coordination.groups.every_kind.any_group import Convert, DecideAgain, Decision
from drumlin.coordination.groups.every_kind.messages import (
    NO_MEMBER_ID,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.every_kind.states import DeadlineKind
from drumlin.wire.embedded_protocol import ConsumerSubscription, read_subscription, write_assignment
from drumlin.wire.error_codes import ErrorCode, KafkaError

_CAME_BACK: Final = "the last member of the consumer protocol came back as a classic one"

# -- JoinGroup ---------------------------------------------------------------------------------


def join(group: ConsumerGroup, request: JoinRequest, *, in_turns: bool = True) -> Decision:
    """Handle a JoinGroup; the answer is a `JoinAnswer`.

    `in_turns`: whether a group of many members may become a classic one over several turns.

    Raises:
        KafkaError: the error for the member.
    """
    is_unknown = request.member_id == NO_MEMBER_ID
    member_id = group.context.new_id() if is_unknown else request.member_id
    check_room(group, member_id, request.group_instance_id)
    _check_protocols(group, request)
    if is_unknown and request.group_instance_id is None and request.requires_known_member_id:
        return Decision([], JoinAnswer(ErrorCode.member_id_required, member_id))
    sent = _sent_subscription(request)
    change = MemberChange(group, request.sees)
    former, member = _find(change, request, member_id)
    replaced = group.static_member(request.group_instance_id)
    subscription = _updated(member, request, sent)
    has_new_topics = change.subscribe(member, subscription, is_new=former is None)
    regex = change.change_regex(member.subscription.regex, subscription.regex)
    has_changed = has_new_topics or regex is not RegexChange.NONE
    change.look_at_metadata(former, subscription, has_changed=has_changed)
    owned = by_id(sent.owned, group.context.topics)
    if replaced is not None and _becomes_classic(group, replaced):
        decide = partial(join, group, request) if in_turns else None
        downgraded = _downgrade(change, replaced, Member(member_id, subscription), decide)
        if downgraded is not None:
            return downgraded._replace(otherwise=lambda: _stay(group, request))
    updated = Member(member_id, subscription, member.progress)
    assigned = change.assign(updated)
    progress = change.reconcile(
        member, subscription, assigned, owned, has_new_subscription=has_changed
    )
    return Decision(
        change.records,
        _answer(request, member_id, progress.epoch),
        change.resolve,
        assign=change.assign_later(partial(_follow, request=request, owned=owned)),
    )


def _stay(group: ConsumerGroup, request: JoinRequest) -> Decision:
    """Handle a member's join if the group is too large to become a classic one."""
    stays_consumer(group, len(group.members))
    return join(group, request)


def _follow(
    group: ConsumerGroup, answer: JoinAnswer, *, request: JoinRequest, owned: Partitions
) -> Decision:
    """Continue a join whose target assignment is complete.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    member = group.members.get(answer.member_id)
    if member is None or member.epoch != answer.generation_id:
        return Decision((), answer)  # a later request has been answered meanwhile
    change = MemberChange(group)
    progress = change.follow(member, owned, answer.generation_id)
    return Decision(change.records, _answer(request, member.member_id, progress.epoch))


def joined(group: ConsumerGroup, request: JoinRequest, member_id: str) -> None:
    """Set the deadline of a member's SyncGroup, as its JoinGroup has been answered."""
    member = group.members.get(member_id)
    if member is not None:
        group.cancel(DeadlineKind.JOIN, member_id)
        group.extend_session(member)
        group.schedule(DeadlineKind.SYNC, member_id, request.rebalance_timeout_ms)


def _answer(request: JoinRequest, member_id: str, epoch: int) -> JoinAnswer:
    return JoinAnswer(
        ErrorCode.none, member_id, epoch, CONSUMER_PROTOCOL_TYPE, request.protocols[0][0]
    )


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    known, names = group.classic_protocols, (name for name, _ in request.protocols)
    is_common = known.common(names, group.classic_count) and known.have_room_for(request.protocols)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_common:
        raise KafkaError(ErrorCode.inconsistent_group_protocol)


def _sent_subscription(request: JoinRequest) -> ConsumerSubscription:
    """The subscription in the metadata of the preferred protocol."""
    try:
        return read_subscription(request.protocols[0][1])
    except ValueError as error:
        message = f"the member's subscription cannot be read: {error}"
        raise KafkaError(ErrorCode.unknown_server_error, message) from None


def _updated(member: Member, request: JoinRequest, sent: ConsumerSubscription) -> Subscription:
    return Subscription(
        request.group_instance_id or member.group_instance_id,
        sent.rack_id or member.subscription.rack_id,
        request.client_id,
        request.client_host,
        frozenset(sent.topics),
        "",
        request.rebalance_timeout_ms,
        member.subscription.assignor,
        ClassicProtocols(request.session_timeout_ms, request.protocols),
    )


def _find(
    change: MemberChange, request: JoinRequest, member_id: str
) -> tuple[Member | None, Member]:
    """The member before this request (None if it is new) and after the request.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group = change.group
    instance_id = request.group_instance_id
    if instance_id is None:
        known = group.members.get(member_id)
        return known, known or Member(member_id)
    if request.member_id != NO_MEMBER_ID:
        known = check_static(group, instance_id, member_id)
        return known, known
    former = group.static_member(instance_id)
    if former is None:
        return None, Member(member_id)
    return former, change.replace_static(former, member_id)


def _becomes_classic(group: ConsumerGroup, replaced: Member) -> bool:
    return not replaced.is_classic and may_become_classic(group, [replaced], coming=1)


def _downgrade(
    change: MemberChange,
    replaced: Member,
    joining: Member,
    decide: DecideAgain | None,
) -> Decision | None:
    """Make the group classic if its last consumer member, a static one, comes back with the classic
    protocol; with `decide`, a group of many members is converted over several turns.
    """
    group = change.group
    staying = [each for each in group.members.values() if each is not replaced]
    staying.append(joining)
    must_rebalance = group.target_epoch.epoch < change.epoch
    epoch = group.epoch if must_rebalance else group.target_epoch.epoch
    reason = _CAME_BACK if must_rebalance else None
    targets = {**group.targets, joining.member_id: group.targets.get(replaced.member_id, {})}
    outcome: Decision | None
    if decide is not None and len(staying) > MEMBERS_AT_ONCE:
        make = partial(as_classic, group, staying, targets)
        outcome = Decision(convert=Convert(make, decide, reason))
    else:
        outcome = to_classic(group, staying, reason, targets)
    if outcome is None:
        return None
    assert joining.subscription.classic is not None
    chosen = joining.subscription.classic.chosen
    answer = JoinAnswer(ErrorCode.none, joining.member_id, epoch, CONSUMER_PROTOCOL_TYPE, chosen)
    return outcome._replace(answer=answer)


# -- SyncGroup, Heartbeat, LeaveGroup ----------------------------------------------------------


def sync(group: ConsumerGroup, request: SyncRequest) -> SyncAnswer:
    """
    Raises:
        KafkaError: the error for the member.
    """
    member, classic = _check(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    is_other_type = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if is_other_type or request.protocol_name not in (None, classic.chosen):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    is_behind = group.target_epoch.epoch > member.epoch
    if is_behind and member.progress.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, member)
        raise KafkaError(ErrorCode.rebalance_in_progress)
    group.cancel(DeadlineKind.SYNC, member.member_id)
    group.extend_session(member)
    assigned = {
        topic_id: frozenset(epochs) for topic_id, epochs in member.progress.assigned.items()
    }
    version = read_subscription(classic.protocols[0][1]).version
    assignment = write_assignment(version, by_name(assigned, group.context.topics))
    return SyncAnswer(ErrorCode.none, request.protocol_type, request.protocol_name, assignment)


def heartbeat(
    group: ConsumerGroup, member_id: str, group_instance_id: str | None, generation_id: int
) -> None:
    """
    Raises:
        KafkaError: the client must join again, or is not a member.
    """
    member, _ = _check(group, member_id, group_instance_id, generation_id)
    group.extend_session(member)
    state = member.progress.state
    must_join = (
        member.epoch < group.target_epoch.epoch
        or state is MemberState.UNREVOKED_PARTITIONS
        or (state is MemberState.UNRELEASED_PARTITIONS and not _must_wait(group, member))
    )
    if must_join:
        _expect_join(group, member)
        raise KafkaError(ErrorCode.rebalance_in_progress)


def _must_wait(group: ConsumerGroup, member: Member) -> bool:
    """Whether other members still have partitions that are assigned to this member."""
    assigned = member.progress.assigned
    return any(
        group.is_owned(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions - assigned.get(topic_id, {}).keys()
    )


def _expect_join(group: ConsumerGroup, member: Member) -> None:
    """Set the deadline for a member to join again, unless an earlier request has set it."""
    if not group.is_scheduled(DeadlineKind.JOIN, member.member_id):
        timeout_ms = member.subscription.rebalance_timeout_ms
        group.schedule(DeadlineKind.JOIN, member.member_id, timeout_ms)


def _check(
    group: ConsumerGroup, member_id: str, group_instance_id: str | None, generation_id: int
) -> tuple[Member, ClassicProtocols]:
    if group_instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static(group, group_instance_id, member_id)
    classic = member.subscription.classic
    if classic is None:
        message = f"member {member_id} does not use the classic protocol"
        raise KafkaError(ErrorCode.unknown_member_id, message)
    if generation_id != member.epoch:
        raise KafkaError(ErrorCode.illegal_generation)
    return member, classic


def leave(group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> Decision:
    """Let members of either protocol leave; the answer has a code for each member."""
    codes: list[ErrorCode] = []
    gone: dict[str, Member] = {}
    for member_id, instance_id, _ in leaving:
        try:
            member = _leaving(group, member_id, instance_id)
        except KafkaError as refusal:
            codes.append(refusal.code)
        else:
            codes.append(ErrorCode.none)
            gone[member.member_id] = member
    return fence(group, list(gone.values()), codes)


def _leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        return group.member(member_id)
    if member_id != NO_MEMBER_ID:
        return check_static(group, instance_id, member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    return member
